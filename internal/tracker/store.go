package tracker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

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
	err = s.db.From(ctx).Raw(`INSERT INTO tracker_clients (id, name, views, active, created_at, updated_at)
		VALUES (?, ?, ?, true, ?, ?) RETURNING number`, id, name, text, now.UnixMicro(), now.UnixMicro()).Scan(&number).Error
	if err != nil {
		return 0, fmt.Errorf("insert tracker client: %w", err)
	}
	return number, nil
}

// lockClient holds the client until the transaction ends; errs.NotFound when there is none.
func (s *store) lockClient(ctx context.Context, id string) (Client, error) {
	var row clientRow
	err := s.db.From(ctx).Raw(`SELECT * FROM tracker_clients WHERE id = ?`+s.db.RowLock(` FOR UPDATE`),
		id).Take(&row).Error
	return clientOf(row, id, err)
}

// find returns the client; errs.NotFound when there is none.
func (s *store) find(ctx context.Context, id string) (Client, error) {
	var row clientRow
	err := s.db.Reader(ctx).Raw(`SELECT * FROM tracker_clients WHERE id = ?`, id).Take(&row).Error
	return clientOf(row, id, err)
}

func clientOf(row clientRow, id string, err error) (Client, error) {
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Client{}, errs.New(errs.NotFound, "There is no tracker client "+id+".")
	}
	if err != nil {
		return Client{}, fmt.Errorf("read tracker client: %w", err)
	}
	return row.client()
}

func (s *store) saveClient(ctx context.Context, c Client) error {
	views, err := viewsText(c.Views)
	if err != nil {
		return err
	}
	err = s.db.From(ctx).Exec(`UPDATE tracker_clients SET views = ?, active = ?, updated_at = ?, version = version + 1
		WHERE number = ?`,
		views, c.Active, c.UpdatedAt.UnixMicro(), c.number).Error
	if err != nil {
		return fmt.Errorf("save tracker client: %w", err)
	}
	return nil
}

// keyRow is a key as it is stored.
type keyRow struct {
	Hash         []byte `gorm:"primaryKey"`
	ClientNumber int64
	ActiveUntil  *int64
	CreatedAt    int64 `gorm:"autoCreateTime:false"`
}

// TableName returns gorm's name for the rows.
func (keyRow) TableName() string { return "tracker_client_keys" }

// keysOf are the keys of a client.
type keysOf struct {
	*store
	client int64
}

// Insert implements apikey.Keys.
func (k keysOf) Insert(ctx context.Context, key apikey.Stored) error {
	row := keyRow{Hash: key.Hash[:], ClientNumber: k.client, CreatedAt: key.CreatedAt.UnixMicro()}
	return database.Translate(k.db.From(ctx).Create(&row).Error)
}

// Expire implements apikey.Keys.
func (k keysOf) Expire(ctx context.Context, until time.Time) error {
	return database.Translate(k.db.From(ctx).Exec(`UPDATE tracker_client_keys SET active_until = ?
		WHERE client_number = ? AND (active_until IS NULL OR active_until > ?)`,
		until.UnixMicro(), k.client, until.UnixMicro()).Error)
}

// byKey returns the client that has the key now.
func (s *store) byKey(ctx context.Context, hash [32]byte, now time.Time) (known knownClient, found bool, err error) {
	var rows []struct {
		Client      clientRow `gorm:"embedded"`
		ActiveUntil *int64
	}
	err = s.db.Reader(ctx).Raw(`SELECT c.*, k.active_until FROM tracker_client_keys k
		JOIN tracker_clients c ON c.number = k.client_number
		WHERE k.hash = ? AND (k.active_until IS NULL OR k.active_until > ?)`, hash[:], now.UnixMicro()).Scan(&rows).Error
	if err != nil {
		return knownClient{}, false, fmt.Errorf("look up tracker client key: %w", err)
	}
	if len(rows) == 0 {
		return knownClient{}, false, nil
	}
	if rows[0].ActiveUntil != nil {
		known.until = time.UnixMicro(*rows[0].ActiveUntil)
	}
	known.client, err = rows[0].Client.client()
	return known, err == nil, err
}
