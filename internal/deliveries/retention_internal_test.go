package deliveries

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/notice"
	"github.com/supplyhub/supplyhub/internal/round"
)

// noticed collects the operator's notices.
type noticed struct{ list []notice.Notice }

func (n *noticed) Open() bool { return true }

func (n *noticed) Note(_ context.Context, notices ...notice.Notice) error {
	n.list = append(n.list, notices...)
	return nil
}

func TestEnd_is_of_what_has_been_pending_to_a_receiver_for_longer(t *testing.T) {
	t.Parallel()
	const old, late = 1000, 9000 // before and after the border
	type delivery struct {
		destination      string
		status           Status
		worker           any
		attempts, series int64
		made, changed    int64
		last             any
		history          []int64 // when the attempts before the last were begun
	}
	for name, tt := range map[string]struct {
		delivery
		want Status
	}{
		"never tried":                     {delivery{"acme", Pending, nil, 0, 0, old, old, nil, nil}, Dead},
		"made of late":                    {delivery{"acme", Pending, nil, 0, 0, late, late, nil, nil}, Pending},
		"tried until now":                 {delivery{"acme", Pending, nil, 2, 2, old, late, late, []int64{old}}, Dead},
		"redelivered of late":             {delivery{"acme", Pending, nil, 2, 0, old, late, old, []int64{old}}, Pending},
		"redelivered long ago":            {delivery{"acme", Pending, nil, 2, 0, old, old, old, []int64{old}}, Dead},
		"redelivered of late, tried once": {delivery{"acme", Pending, nil, 2, 1, old, late, late, []int64{old}}, Pending},
		"redelivered of late, tried twice": {delivery{"acme", Pending, nil, 3, 2, old, late, late,
			[]int64{old, late}}, Pending},
		"redelivered long ago, tried until now": {delivery{"acme", Pending, nil, 3, 2, old, late, late,
			[]int64{old, old}}, Dead},
		"in a worker's hands":                {delivery{"acme", Pending, 7, 1, 1, old, old, old, nil}, Pending},
		"to the own endpoint":                {delivery{OwnEndpoint, Pending, nil, 0, 0, old, old, nil, nil}, Pending},
		"delivered":                          {delivery{"acme", Delivered, nil, 1, 1, old, old, old, nil}, Delivered},
		"failed":                             {delivery{"acme", Failed, nil, 1, 1, old, old, old, nil}, Failed},
		"of a supplier with nothing pending": {delivery{"zoo", Dead, nil, 1, 1, old, old, old, nil}, Dead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databasetest.Each(t, func(t *testing.T, db *database.DB) {
				ctx, notes := t.Context(), &noticed{}
				d := NewKeeper(KeeperDeps{DB: db, Now: func() time.Time { return time.UnixMicro(late + 5) },
					Log: slog.New(slog.DiscardHandler), Notifier: notes})
				exec(ctx, t, db, `INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status,
					worker, attempts, series, next_attempt_at, created_at, updated_at, last_started_at,
					last_duration_us, last_error)
					VALUES ('msg_1000x', 1, 1, ?, 'acme', 1, ?, ?, ?, ?, 0, ?, ?, ?, 1, 'connection refused')`,
					tt.destination, tt.status, tt.worker, tt.attempts, tt.series, tt.made, tt.changed, tt.last)
				for i, at := range tt.history {
					exec(ctx, t, db, `INSERT INTO webhook_attempts (delivery_id, supplier_id, number, started_at)
						VALUES ('msg_1000x', 'acme', ?, ?)`, i+1, at)
				}
				for range 2 { // of the second there is nothing left to do
					if err := d.End(ctx, time.UnixMicro(5000), "not delivered within 30 days"); err != nil {
						t.Fatal(err)
					}
				}
				detail, err := d.Show(ctx, "msg_1000x")
				if err != nil || detail.Status != tt.want {
					t.Fatalf("it is %+v, want %s: %v", detail, tt.want, err)
				}
				ended := tt.delivery.status == Pending && tt.want == Dead
				if len(notes.list) == 1 != ended || ended && *detail.LastError != notes.list[0].Error {
					t.Errorf("notices %+v of %+v", notes.list, detail)
				}
				if n := len(detail.Attempts); n > 0 && *detail.Attempts[n-1].Error != "connection refused" {
					t.Errorf("the last attempt's own error is lost: %+v", detail.Attempts)
				}
				if !ended {
					return
				}
				if _, err := d.Redeliver(ctx, "msg_1000x"); err != nil {
					t.Fatal(err)
				}
				if again, err := d.Show(ctx, "msg_1000x"); err != nil || *again.LastError != "connection refused" {
					t.Errorf("redelivered it is %+v: %v", again, err)
				}
			})
		})
	}
}

func exec(ctx context.Context, t *testing.T, db *database.DB, statement string, args ...any) {
	t.Helper()
	if err := db.From(ctx).Exec(statement, args...).Error; err != nil {
		t.Fatal(err)
	}
}

// manyRounds stores, for the requests from first to last of acme, so many rounds with their deliveries to its receiver.
func manyRounds(ctx context.Context, t *testing.T, s *store, first, last, rounds int64) (requests []round.Round) {
	t.Helper()
	var rows [][3]any
	for uid := first; uid <= last; uid++ {
		requests = append(requests, round.Round{SupplierID: "acme", RequestID: uid, UID: uid, Number: rounds})
		for number := int64(1); number <= rounds; number++ {
			id := round.Event{UID: uid, At: 1, Nonce: uid*100_000 + number}.WebhookID(round.Receiver)
			rows = append(rows, [3]any{id, uid, number})
		}
	}
	list, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	read := `SELECT value->>0, value->>1, value->>2 FROM json_each($1)`
	if s.Postgres() {
		read = `SELECT value->>0, (value->>1)::bigint, (value->>2)::bigint FROM json_array_elements($1::json)`
	}
	err = s.DB.InTx(ctx, "test", func(ctx context.Context) error {
		_, err := s.DB.SQL(ctx).ExecContext(ctx, `INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id,
				request_id, status, attempts, series, next_attempt_at, created_at, updated_at, last_started_at, last_status)
			SELECT i, u, n, 'acme', 'acme', u, 'delivered', 2, 2, 0, u, 1, 1, 200
			FROM (WITH rows(i, u, n) AS (`+read+`) SELECT * FROM rows) AS r`, string(list))
		for _, statement := range []string{`INSERT INTO webhook_events (uid, round, nonce, supplier_id, trace_id, body,
				created_at)
				SELECT uid, round, uid * 100000 + round, supplier_id, '', '', 1 FROM webhook_deliveries
				WHERE uid >= ? AND uid <= ?`,
			`INSERT INTO webhook_attempts (delivery_id, supplier_id, number, started_at)
				SELECT id, supplier_id, 1, 1 FROM webhook_deliveries WHERE uid >= ? AND uid <= ?`} {
			if err == nil {
				err = s.DB.From(ctx).Exec(statement, first, last).Error
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return requests
}

func TestRequests_of_any_number_of_rounds_are_listed_held_and_forgotten(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx, s := t.Context(), &store{Tables{db}}
		d := NewKeeper(KeeperDeps{DB: db})
		many := 33_000 // more than SQLite takes values in a statement
		if s.Postgres() {
			many = 3_000
		}
		requests := append(manyRounds(ctx, t, s, 1, 500, 4), manyRounds(ctx, t, s, 501, 501, int64(many))...)
		one, other := requests[500], manyRounds(ctx, t, s, 502, 502, 3)[0]
		its := func(r round.Round) Filter { return Filter{Requests: []int64{r.UID}} }
		if list, _, err := d.List(ctx, its(one), Key{}, 1000); err != nil || len(list) != 1000 ||
			list[999].Round != int64(many-999) {
			t.Fatalf("%d deliveries of a request: %v", len(list), err)
		}
		of := Filter{Receiver: "acme", Requests: []int64{one.UID}, Status: Delivered}
		if rows, next, err := s.page(ctx, of, Key{UID: one.UID, Round: 27}, 7); err != nil || len(rows) != 7 ||
			rows[0].Round != 26 || next.Round != 20 {
			t.Fatalf("a page of %d, the next is behind %v: %v", len(rows), next, err)
		}
		alive, err := d.Underway(ctx, requests)
		if err != nil {
			t.Fatal(err)
		}
		for r, is := range alive {
			if is {
				t.Fatalf("%s is under way", r)
			}
		}
		err = db.InTx(ctx, "test", func(ctx context.Context) error {
			over, err := d.Hold(ctx, requests, int64(many))
			if err != nil || len(over) != len(requests) {
				t.Errorf("%d requests are held: %v", len(over), err)
			}
			events, err := d.Forget(ctx, requests, int64(many))
			if events != int64(500*4+many) {
				t.Errorf("%d events are deleted", events)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"webhook_events", "webhook_deliveries", "webhook_attempts"} {
			var left int
			if err := db.From(ctx).Raw(`SELECT count(*) FROM ` + table).Scan(&left).Error; err != nil || left != 3 {
				t.Errorf("%d rows of another request are left in %s: %v", left, table, err)
			}
		}
		if list, _, err := d.List(ctx, its(other), Key{}, 1000); err != nil || len(list) != 3 {
			t.Errorf("%d deliveries of another request: %v", len(list), err)
		}
	})
}

func TestHold_keeps_requests_of_which_something_is_pending(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx, s := t.Context(), &store{Tables{db}}
		requests := manyRounds(ctx, t, s, 1, 6, 2)
		for i, state := range []string{`status = 'pending'`, `status = 'pending', worker = 7`,
			`status = 'pending', destination = 'own'`, `status = 'dead'`, `status = 'failed'`} {
			exec(ctx, t, db, `UPDATE webhook_deliveries SET `+state+` WHERE uid = ? AND round = 2`, i+1)
		}
		err := db.InTx(ctx, "test", func(ctx context.Context) error {
			over, err := NewKeeper(KeeperDeps{DB: db}).Hold(ctx, requests, 2)
			if want := requests[3:]; !slices.Equal(over, want) {
				t.Errorf("over are %v, want %v", over, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestRecover_of_what_is_undelivered_sends_each_once_and_keeps_the_schedule_of_what_is_pending(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		now := time.UnixMicro(1_000_000)
		s := selfService(t, db, now)
		ctx := t.Context()
		sentRows(ctx, t, db, 1, redeliverBatch+10, Pending)
		sentRows(ctx, t, db, redeliverBatch+11, redeliverBatch+20, Dead)
		sentRows(ctx, t, db, redeliverBatch+21, redeliverBatch+30, Failed)
		sentRows(ctx, t, db, redeliverBatch+31, redeliverBatch+40, Delivered)
		exec(ctx, t, db, `UPDATE webhook_deliveries SET created_at = 1, next_attempt_at = 2000000`)
		exec(ctx, t, db, `UPDATE webhook_deliveries SET worker = 7 WHERE uid = 10`)
		if n, err := s.Recover(ctx, "acme", SentFilter{Status: undelivered}); err != nil || n != redeliverBatch+29 {
			t.Fatalf("%d recovered: %v", n, err)
		}
		var rows []struct {
			Series, At, N int64
			Status        string
		}
		err := db.From(ctx).Raw(`SELECT status, series, next_attempt_at AS at, count(*) AS n FROM webhook_deliveries
			GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`).Scan(&rows).Error
		want := fmt.Sprint([][4]any{{"delivered", 1, 2000000, 10}, {"pending", 0, 1000000, 20},
			{"pending", 1, 1000000, redeliverBatch + 9}, {"pending", 1, 2000000, 1}})
		got := make([][4]any, len(rows))
		for i, r := range rows {
			got[i] = [4]any{r.Status, r.Series, r.At, r.N}
		}
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("they are %v, want %s: %v", got, want, err)
		}
		if n, err := s.Waiting(ctx, "acme"); err != nil || n != redeliverBatch+30 {
			t.Errorf("%d are pending: %v", n, err)
		}
	})
}
