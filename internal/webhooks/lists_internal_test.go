package webhooks

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/round"
)

// listedRows stores deliveries of acme's, the numbers from first to last, ten a second, each with its own one. One of
// a hundred is dead.
func listedRows(ctx context.Context, t *testing.T, db *database.DB, first, last int) {
	t.Helper()
	err := db.From(ctx).Exec(`INSERT INTO webhook_deliveries
		(id, uid, round, destination, supplier_id, request_id, status, attempts, series, next_attempt_at, created_at,
			updated_at)
		WITH RECURSIVE n(i) AS (SELECT CAST(? AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		SELECT 'msg_1000' || (10000000 + i) || to_, i, 1, to_, 'acme', i,
			CASE i % 100 WHEN 0 THEN 'dead' ELSE 'delivered' END, 1, 1, 0, i * 100000, 1
		FROM n CROSS JOIN (SELECT 'own' AS to_ UNION ALL SELECT 'acme') AS destinations`, first, last).Error
	if err != nil {
		t.Fatal(err)
	}
}

func tenth(n int) time.Time { return time.UnixMicro(int64(n) * 100_000) }

// samePages compares pages all over the list with what the table has.
func samePages(ctx context.Context, t *testing.T, db *database.DB) {
	t.Helper()
	s := NewSelfService(SelfServiceDeps{DB: db, Now: time.Now})
	for _, filter := range []SentFilter{
		{}, {Status: Delivered}, {Status: Dead}, {Status: Pending}, {Since: tenth(100), Until: tenth(150)},
		{Since: tenth(40), Status: Dead},
		{Until: tenth(4321)}, {Until: tenth(4321), Status: Delivered}, {Since: tenth(1 << 40)}, {Until: tenth(0)},
		{Since: tenth(300), Until: tenth(200)},
	} {
		times := filter.times()
		var want []string
		err := db.From(ctx).Raw(`SELECT id FROM webhook_deliveries WHERE destination = 'acme' AND status IN ?
			AND created_at >= ? AND created_at < ?
			ORDER BY created_at DESC, id DESC`, filter.of(), times.Since, times.Until).Scan(&want).Error
		if err != nil {
			t.Fatal(err)
		}
		for _, number := range []int{1, 2, 50, 101, (len(want) + 19) / 20, len(want)/20 + 2} {
			page := httpapi.Page{Number: max(number, 1), Size: 20}
			total, items, err := s.List(ctx, "acme", filter, page)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, item := range items {
				ids = append(ids, item.ID)
			}
			from := min(int(page.Offset()), len(want))
			if expected := want[from:min(from+page.Size, len(want))]; total != int64(len(want)) || !slices.Equal(ids, expected) {
				t.Errorf("page %d of %+v has of %d %q, want of %d %q", page.Number, filter, total, ids, len(want), expected)
			}
		}
	}
}

func TestLists_of_deliveries_page_and_count_as_the_table_does(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		samePages(ctx, t, db)
		listedRows(ctx, t, db, 1, 5000)
		samePages(ctx, t, db)
		databasetest.Fold(ctx, t, db, Lists()...)
		samePages(ctx, t, db)
		for _, statement := range []string{
			`UPDATE webhook_deliveries SET status = 'pending' WHERE uid BETWEEN 90 AND 130 OR uid = 4000`,
			`UPDATE webhook_deliveries SET attempts = 2`,
			`DELETE FROM webhook_deliveries WHERE uid % 7 = 0 OR uid < 2500 AND status = 'delivered'`,
			`UPDATE webhook_deliveries SET status = 'delivered' WHERE status = 'pending' OR uid % 3 = 0`,
		} {
			if err := db.From(ctx).Exec(statement).Error; err != nil {
				t.Fatal(err)
			}
			samePages(ctx, t, db)
		}
		listedRows(ctx, t, db, 5001, 9000)
		databasetest.Fold(ctx, t, db, Lists()...)
		samePages(ctx, t, db)
		var blocks int64
		if err := db.From(ctx).Raw(`SELECT max(n) FROM list_counts
			WHERE list = 'deliveries'`).Scan(&blocks).Error; err != nil || blocks > 2500 {
			t.Errorf("a block has %d rows: %v", blocks, err)
		}
	})
}

// requests know two of a supplier.
type requests struct{}

func (requests) Round(_ context.Context, _ string, id int64) (round.Round, error) {
	if id > 2 {
		return round.Round{}, errs.New(errs.NotFound, "")
	}
	return round.Round{SupplierID: "acme", RequestID: id, UID: id, Number: 2}, nil
}

func TestLists_of_a_request_s_deliveries_are_those_of_all_its_rounds(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		add := func(id string, uid int, destination string) {
			err := db.From(ctx).Exec(`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id,
				status, attempts, series,
				next_attempt_at, created_at, updated_at) VALUES (?, ?, 1, ?, 'acme', ?, 'delivered', 1, 1, 0, ?, 1)`, id, uid,
				destination, uid, uid).Error
			if err != nil {
				t.Fatal(err)
			}
		}
		for uid := range 3 {
			for number := range 3 {
				e := round.NewEvent(int64(uid), time.UnixMicro(7))
				err := db.From(ctx).Exec(`INSERT INTO webhook_events (uid, round, nonce, supplier_id, trace_id, body, created_at)
					VALUES (?, ?, ?, 'acme', '', '', 7)`, uid, number+1, e.Nonce).Error
				if err != nil {
					t.Fatal(err)
				}
				add(e.WebhookID(round.OwnEndpoint), uid, OwnEndpoint)
				add(e.WebhookID(round.Receiver), uid, "acme")
			}
		}
		s := NewSelfService(SelfServiceDeps{DB: db, Now: time.Now, Requests: requests{}})
		for id, want := range map[int64]int64{1: 3, 2: 3, 3: 0} {
			total, items, err := s.List(ctx, "acme", SentFilter{RequestID: &id}, httpapi.Page{Number: 2, Size: 2})
			if err != nil || total != want || int64(len(items)) != max(want-2, 0) {
				t.Errorf("request %d has %d deliveries, %d on the second page: %v", id, total, len(items), err)
			}
		}
	})
}

// A page of a supplier with many deliveries reads a block's rows and its own, whatever plan a young connection made.
func TestPlans_of_a_supplier_s_listing_read_a_block_and_the_page(t *testing.T) {
	t.Parallel()
	s := &store{databasetest.Open(t, database.Postgres)}
	const rows = 20_000
	err := s.db.InTx(t.Context(), "test", func(ctx context.Context) error { // one connection, which plans over an empty table
		for _, stored := range []int{0, rows} {
			if stored > 0 {
				listedRows(ctx, t, s.db, 1, stored)
			}
			databasetest.Fold(ctx, t, s.db, Lists()...)
			for _, filter := range []SentFilter{{}, {Status: Delivered}, {Status: Dead}, {Status: Failed}, {Since: tenth(100),
				Until: tenth(rows - 100)}} {
				for _, page := range []int{1, 9, 500} {
					before := s.rowsRead(ctx, t)
					if _, _, err := s.sent(ctx, "acme", filter, 20, int64(page-1)*20); err != nil {
						t.Fatal(err)
					}
					if read := s.rowsRead(ctx, t) - before; read > 6100 {
						t.Errorf("page %d of %+v over %d rows: %d were read", page, filter, stored, read)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRecent_of_a_supplier_leads_through_all_its_deliveries_each_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		d := &Dispatcher{store: &store{db}}
		listedRows(ctx, t, db, 1, 2200)
		err := db.From(ctx).Exec(`INSERT INTO webhook_deliveries
			(id, uid, round, destination, supplier_id, request_id, status, attempts, series, next_attempt_at, created_at,
				updated_at)
			SELECT id || 'x', uid + 10000, 1, destination, 'acme', uid + 10000,
				CASE uid % 3 WHEN 0 THEN 'pending' ELSE status END, 1, 1, 0, 150000000, 1
			FROM webhook_deliveries WHERE destination = 'acme'`).Error // of one moment
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for _, filter := range []Filter{{SupplierID: "acme"}, {SupplierID: "acme", Status: Delivered}} {
				var want, got []string
				err := db.From(ctx).Raw(`SELECT id FROM webhook_deliveries WHERE destination = 'acme' AND status IN ?
					ORDER BY created_at DESC, id DESC`,
					SentFilter{Status: filter.Status}.of()).Scan(&want).Error
				if err != nil {
					t.Fatal(err)
				}
				for after, pages := "", 0; pages == 0 || after != "" && pages < 200; pages++ {
					page, next, err := d.Recent(ctx, filter, after, 100)
					if err != nil {
						t.Fatal(err)
					}
					for _, one := range page {
						got = append(got, one.ID)
					}
					after = next
				}
				if !slices.Equal(got, want) {
					t.Errorf("%+v: %d of %d deliveries", filter, len(got), len(want))
				}
			}
			databasetest.Fold(ctx, t, db, Lists()...)
		}
	})
}
