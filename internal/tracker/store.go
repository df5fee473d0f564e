package tracker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/apikey"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// The service's own tables of the tracker: clients and their keys, the views that it has made, and the pins of
// crawls. Records are read through database.Rows.

// store is the clients, their keys and the views made here. Records are read through database.Rows.
type store struct{ db *database.DB }

// clientRow is a client as it is stored. Times are Unix microseconds.
type clientRow struct {
	Client
	views            string
	created, updated int64
}

// clientColumns are the columns that places reads, of a table c.
const clientColumns = `c.number, c.id, c.name, c.views, c.active, c.created_at, c.updated_at, c.version`

// places returns where the database reads clientColumns to.
func (r *clientRow) places() []any {
	return []any{&r.number, &r.ID, &r.Name, &r.views, &r.Active, &r.created, &r.updated, &r.version}
}

// client returns the client of a row.
func (r clientRow) client() (Client, error) {
	r.CreatedAt, r.UpdatedAt = time.UnixMicro(r.created).UTC(), time.UnixMicro(r.updated).UTC()
	return r.Client, errs.Doing("decode views of tracker client "+r.ID, json.Unmarshal([]byte(r.views), &r.Views))
}

// viewsText returns granted views as they are stored, an array also when there is none.
func viewsText(views []string) string {
	text, _ := json.Marshal(append([]string{}, views...)) // no text is refused
	return string(text)
}

// list returns all clients, in the order in which they were made; never nil.
func (s *store) list(ctx context.Context) ([]Client, error) {
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx),
		`SELECT `+clientColumns+` FROM tracker_clients c ORDER BY number`,
		nil, (*clientRow).places)
	clients := make([]Client, len(rows))
	for i := 0; i < len(rows) && err == nil; i++ {
		clients[i], err = rows[i].client()
	}
	return clients, errs.Doing("list tracker clients", err)
}

// insertClient stores a client and returns its number, by which its records name it.
func (s *store) insertClient(ctx context.Context, id, name string, views []string, now time.Time) (
	number int64, err error) {
	_, err = database.One(ctx, s.db.SQL(ctx), `INSERT INTO tracker_clients
		(id, name, views, active, created_at, updated_at) VALUES ($1, $2, $3, true, $4, $4) RETURNING number`,
		[]any{id, name, viewsText(views), now.UnixMicro()}, &number)
	return number, errs.Doing("insert tracker client", err)
}

// lockClient holds the client until the transaction ends; errs.NotFound when there is none.
func (s *store) lockClient(ctx context.Context, id string) (Client, error) {
	return s.client(ctx, s.db.SQL(ctx), id, s.db.RowLock(` FOR UPDATE`))
}

// client reads a client; errs.NotFound when there is none.
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

// saveClient writes a client that lockClient holds. The new version makes every process look it up again.
func (s *store) saveClient(ctx context.Context, c Client) error {
	_, err := database.Exec(ctx, s.db.SQL(ctx), `UPDATE tracker_clients SET views = $1, active = $2, updated_at = $3,
		version = version + 1 WHERE number = $4`, viewsText(c.Views), c.Active, c.UpdatedAt.UnixMicro(), c.number)
	return errs.Doing("save tracker client", err)
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
func (s *store) byKey(ctx context.Context, hash [32]byte, now time.Time) (c Client, found bool, err error) {
	var row clientRow
	var until *int64
	found, err = database.One(ctx, s.db.ReaderSQL(ctx), `SELECT `+clientColumns+`, k.active_until
		FROM tracker_client_keys k JOIN tracker_clients c ON c.number = k.client_number
		WHERE k.hash = $1 AND (k.active_until IS NULL OR k.active_until > $2)`, []any{hash[:], now.UnixMicro()},
		append(row.places(), &until)...)
	if err != nil || !found {
		return Client{}, false, errs.Doing("look up tracker client key", err)
	}
	if until != nil {
		row.keyEnds = time.UnixMicro(*until)
	}
	c, err = row.client()
	return c, err == nil, err
}

// ensureView makes the view of a client's records, unless it is there, and writes down what it looks like: when
// another view is put in its place, the counters are not believed for that one.
func (s *store) ensureView(ctx context.Context, client int64) error {
	name := viewName(client)
	definition := database.Either(s.db.Dialect, `SELECT pg_get_viewdef(to_regclass($1))`,
		`SELECT sql FROM sqlite_master WHERE type = 'view' AND name = $1`)
	var there bool
	_, err := database.One(ctx, s.db.SQL(ctx), `SELECT (`+definition+`) IS NOT NULL
		AND EXISTS (SELECT 1 FROM tracker_views WHERE client_number = $2)`, []any{name, client}, &there)
	if err != nil || there {
		return errs.Doing("look for tracker view", err)
	}
	create := fmt.Sprintf("CREATE VIEW %s AS SELECT %s FROM tracker_records WHERE client_number = %d", quote(name),
		strings.Join(lists.Of(columns(), quote), ", "), client)
	if _, err := database.Exec(ctx, s.db.SQL(ctx), create); err != nil {
		return fmt.Errorf("create tracker view: %w", err)
	}
	if err := s.shareView(ctx, name); err != nil {
		return fmt.Errorf("grant tracker view: %w", err)
	}
	_, err = database.Exec(ctx, s.db.SQL(ctx), `INSERT INTO tracker_views (name, client_number, definition)
		VALUES ($1, $2, (`+definition+`))
		ON CONFLICT (client_number) DO UPDATE SET definition = excluded.definition`, name, client)
	return errs.Doing("note tracker view", err)
}

// shareView lets every role read the view that may read the list of views, as the api does that serves them.
func (s *store) shareView(ctx context.Context, name string) error {
	if s.db.Engine() == database.SQLite {
		return nil
	}
	roles, err := database.Column[string](ctx, s.db.SQL(ctx), `SELECT grantee FROM information_schema.role_table_grants
		WHERE table_schema = current_schema() AND table_name = 'tracker_views' AND privilege_type = 'SELECT'
			AND grantee NOT IN ('PUBLIC', current_user)`)
	if err != nil || len(roles) == 0 {
		return err
	}
	_, err = database.Exec(ctx, s.db.SQL(ctx),
		"GRANT SELECT ON "+quote(name)+" TO "+strings.Join(lists.Of(roles, quote), ", "))
	return err
}

// loadedBefore reads the largest id and the load dates that a client has in the built-in store before a load, once
// other loads are kept out.
func (s *store) loadedBefore(ctx context.Context, client int64) (maxID int64, days []string, err error) {
	_, err = database.One(ctx, s.db.SQL(ctx), `SELECT max_id FROM tracker_versions WHERE client_number = $1`,
		[]any{client}, &maxID)
	if err == nil {
		day := database.Either(s.db.Dialect, `to_char(dt_carga, 'YYYY-MM-DD')`, `dt_carga`)
		days, err = database.Column[string](ctx, s.db.SQL(ctx), `SELECT `+day+` FROM tracker_days
			WHERE client_number = $1 AND records > 0 ORDER BY dt_carga`, client)
	}
	return maxID, days, errs.Doing("look at what was loaded before", err)
}

// remove deletes the client's records of these load dates, up to the id.
func (s *store) remove(ctx context.Context, client, upTo int64, days []string) error {
	for _, day := range days {
		_, err := database.Exec(ctx, s.db.SQL(ctx), `DELETE FROM tracker_records
			WHERE client_number = $1 AND dt_carga = CAST($2 AS `+s.dayType()+`) AND id <= $3`, client, day, upTo)
		if err != nil {
			return fmt.Errorf("remove the records of %s: %w", day, err)
		}
	}
	return nil
}

// dayType returns the type of a day in the built-in store.
func (s *store) dayType() string { return database.Either(s.db.Dialect, "date", "text") }

// notePin writes a crawl's state, and forgets the client's crawls that are over. A later page writes only over what is
// not newer: the client may have begun another crawl of the same meanwhile. Each is a statement of its own: first pages
// that hold their crawl and wait for each other's would end in a deadlock.
func (s *store) notePin(ctx context.Context, key pinKey, p pin, first bool, now time.Time) (written bool, err error) {
	over := now.Add(-pinLife).UnixMicro()
	n, err := database.Exec(ctx, s.db.SQL(ctx), `INSERT INTO tracker_pins AS p
			(client_number, listing, filter, page_size, view, generation, max_id, day, pinned_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (client_number, listing, filter, page_size) DO UPDATE SET view = excluded.view,
			generation = excluded.generation, max_id = excluded.max_id, day = excluded.day, pinned_at = excluded.pinned_at
		WHERE $10 OR p.pinned_at < $11 OR p.view <> excluded.view OR p.generation < excluded.generation
			OR p.generation = excluded.generation AND p.max_id <= excluded.max_id`,
		key.client, key.listing, key.filter, key.pageSize, p.view, p.generation, p.maxID, p.day, now.UnixMicro(),
		first, over)
	if err != nil {
		return false, fmt.Errorf("note the listing's state: %w", err)
	}
	_, err = database.Exec(ctx, s.db.SQL(ctx), `DELETE FROM tracker_pins
		WHERE `+s.db.Free("tracker_pins", "ctid", `client_number = $1 AND pinned_at < $2`), key.client, over)
	return n > 0, errs.Doing("forget the client's earlier listings", err)
}

// pin returns the state that was noted for the crawl since the given time.
func (s *store) pin(ctx context.Context, key pinKey, view string, since time.Time) (st state, found bool, err error) {
	found, err = database.One(ctx, s.db.SQL(ctx), `SELECT generation, max_id, day FROM tracker_pins
		WHERE client_number = $1 AND listing = $2 AND filter = $3 AND page_size = $4 AND view = $5 AND pinned_at > $6`,
		[]any{key.client, key.listing, key.filter, key.pageSize, view, since.UnixMicro()}, &st.generation, &st.maxID, &st.day)
	return st, found, err
}
