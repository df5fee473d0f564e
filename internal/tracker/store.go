package tracker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/apikey"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// store is the clients, their keys and the views made here. Records are read through database.Rows.
type store struct{ db *database.DB }

type clientRow struct {
	Number    int64 `gorm:"primaryKey"`
	ID        string
	Name      string
	Views     string
	Active    bool
	CreatedAt int64 `gorm:"autoCreateTime:false"`
	UpdatedAt int64 `gorm:"autoUpdateTime:false"`
	Version   int64
}

// TableName returns gorm's name for the rows.
func (clientRow) TableName() string { return "tracker_clients" }

// clientColumns are the columns that places reads, of a table c.
const clientColumns = `c.number, c.id, c.name, c.views, c.active, c.created_at, c.updated_at, c.version`

func (r *clientRow) places() []any {
	return []any{&r.Number, &r.ID, &r.Name, &r.Views, &r.Active, &r.CreatedAt, &r.UpdatedAt, &r.Version}
}

func (r clientRow) client() (Client, error) {
	c := Client{
		ID: r.ID, Name: r.Name, Views: []string{}, Active: r.Active, number: r.Number, version: r.Version,
		CreatedAt: time.UnixMicro(r.CreatedAt).UTC(), UpdatedAt: time.UnixMicro(r.UpdatedAt).UTC(),
	}
	if err := json.Unmarshal([]byte(r.Views), &c.Views); err != nil {
		return Client{}, fmt.Errorf("decode views of tracker client %s: %w", r.ID, err)
	}
	return c, nil
}

func viewsText(views []string) (string, error) {
	if views == nil {
		views = []string{}
	}
	text, err := json.Marshal(views)
	return string(text), err
}

func (s *store) list(ctx context.Context) ([]Client, error) {
	var rows []clientRow
	if err := s.db.Reader(ctx).Order("number").Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("list tracker clients: %w", err)
	}
	clients := make([]Client, len(rows))
	for i, row := range rows {
		var err error
		if clients[i], err = row.client(); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

func (s *store) insertClient(ctx context.Context, id, name string, views []string, now time.Time) (
	number int64, err error) {
	text, err := viewsText(views)
	if err != nil {
		return 0, err
	}
	_, err = database.One(ctx, s.db.SQL(ctx), `INSERT INTO tracker_clients (id, name, views, active, created_at, updated_at)
		VALUES ($1, $2, $3, true, $4, $4) RETURNING number`, []any{id, name, text, now.UnixMicro()}, &number)
	if err != nil {
		return 0, fmt.Errorf("insert tracker client: %w", err)
	}
	return number, nil
}

// lockClient holds the client until the transaction ends; errs.NotFound when there is none.
func (s *store) lockClient(ctx context.Context, id string) (Client, error) {
	return s.client(ctx, s.db.SQL(ctx), id, s.db.RowLock(` FOR UPDATE`))
}

// find returns the client; errs.NotFound when there is none.
func (s *store) find(ctx context.Context, id string) (Client, error) {
	return s.client(ctx, s.db.ReaderSQL(ctx), id, ``)
}

func (s *store) client(ctx context.Context, pool database.Pool, id, lock string) (Client, error) {
	var row clientRow
	found, err := database.One(ctx, pool, `SELECT `+clientColumns+` FROM tracker_clients c WHERE id = $1`+lock, []any{id},
		row.places()...)
	if err != nil {
		return Client{}, fmt.Errorf("read tracker client: %w", err)
	}
	if !found {
		return Client{}, errs.New(errs.NotFound, "There is no tracker client "+id+".")
	}
	return row.client()
}

func (s *store) saveClient(ctx context.Context, c Client) error {
	views, err := viewsText(c.Views)
	if err != nil {
		return err
	}
	_, err = database.Exec(ctx, s.db.SQL(ctx), `UPDATE tracker_clients SET views = $1, active = $2, updated_at = $3,
		version = version + 1 WHERE number = $4`, views, c.Active, c.UpdatedAt.UnixMicro(), c.number)
	if err != nil {
		return fmt.Errorf("save tracker client: %w", err)
	}
	return nil
}

// keysOf are the keys of a client.
type keysOf struct {
	*store
	client int64
}

// Insert implements apikey.Keys.
func (k keysOf) Insert(ctx context.Context, key apikey.Stored) error {
	_, err := database.Exec(ctx, k.db.SQL(ctx), `INSERT INTO tracker_client_keys (hash, client_number, created_at)
		VALUES ($1, $2, $3)`, key.Hash[:], k.client, key.CreatedAt.UnixMicro())
	return err
}

// Expire implements apikey.Keys.
func (k keysOf) Expire(ctx context.Context, until time.Time) error {
	_, err := database.Exec(ctx, k.db.SQL(ctx), `UPDATE tracker_client_keys SET active_until = $1
		WHERE client_number = $2 AND (active_until IS NULL OR active_until > $1)`, until.UnixMicro(), k.client)
	return err
}

// byKey returns the client that has the key now.
func (s *store) byKey(ctx context.Context, hash [32]byte, now time.Time) (known knownClient, found bool, err error) {
	var row clientRow
	var until *int64
	found, err = database.One(ctx, s.db.ReaderSQL(ctx), `SELECT `+clientColumns+`, k.active_until
		FROM tracker_client_keys k JOIN tracker_clients c ON c.number = k.client_number
		WHERE k.hash = $1 AND (k.active_until IS NULL OR k.active_until > $2)`, []any{hash[:], now.UnixMicro()},
		append(row.places(), &until)...)
	if err != nil {
		return knownClient{}, false, fmt.Errorf("look up tracker client key: %w", err)
	}
	if !found {
		return knownClient{}, false, nil
	}
	if until != nil {
		known.until = time.UnixMicro(*until)
	}
	known.client, err = row.client()
	return known, err == nil, err
}
