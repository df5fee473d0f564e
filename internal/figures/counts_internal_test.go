package figures

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// request stores one; the last is when its estimation is due.
func request(t *testing.T, db *database.DB, id int64, status string, round int, since int64, due any) {
	t.Helper()
	failure := ""
	if status == "failed" {
		failure = "no reason"
	}
	databasetest.Exec(t, db, `
		INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid, round,
			created_at, round_at, updated_at, shard, due_at, failure)
		VALUES ('acme', ?, ?, '', '', '', '', ?, ?, 1, ?, 1, 0, ?, ?)`, id, status, id, round, since, due, failure)
}

func delivery(t *testing.T, db *database.DB, id string, uid int64, round int, to, status string, worker any, at int64) {
	t.Helper()
	databasetest.Exec(t, db, `
		INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts,
			series, next_attempt_at, created_at, updated_at, worker)
		VALUES (?, ?, ?, ?, 'acme', ?, ?, 1, 1, 1, ?, 1, ?)`, id, uid, round, to, uid, status, at, worker)
}

func supplier(t *testing.T, db *database.DB, id, url string, active bool, failingSince any, pausedBy string) {
	t.Helper()
	databasetest.Exec(t, db, `
		INSERT INTO suppliers (id, name, webhook_url, active, access_ttl, refresh_ttl, scopes, created_at,
		updated_at) VALUES (?, '', ?, ?, 1, 1, '', 1, 1)`, id, url, active)
	databasetest.Exec(t, db, `INSERT INTO webhook_receivers (supplier_id, shard, failing_since, paused_by, updated_at)
		VALUES (?, 1, ?, ?, 1)`, id, failingSince, pausedBy)
}

// at makes a recorder whose clock shows the time.
func at(db *database.DB, now time.Time) *Recorder {
	return New(db, func() time.Time { return now }, func() (Sample, error) { return Sample{}, nil })
}

var noon = time.Unix(1_795_000_000, 0)

func TestCounts_are_of_each_request_delivery_and_receiver_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		if none, err := at(db, noon).Count(t.Context()); err != nil || none != (Counts{At: noon}) {
			t.Errorf("of nothing: %+v, %v", none, err)
		}
		since := func(seconds int64) int64 { return noon.Unix()*1e6 - seconds*1e6 }
		request(t, db, 1, "enqueued", 1, since(10), 5)
		request(t, db, 2, "enqueued", 2, since(30), 6) // its delivery of the round before was redelivered
		delivery(t, db, "2-1", 2, 1, "own", "pending", nil, since(20))
		request(t, db, 3, "enqueued", 1, since(50), 7)
		request(t, db, 4, "enqueued", 1, since(5), nil)
		delivery(t, db, "4-1", 4, 1, "own", "pending", nil, since(5))
		delivery(t, db, "4-2", 4, 1, "s1", "pending", nil, since(900))
		delivery(t, db, "4-3", 4, 1, "s7", "pending", nil, since(9000))               // nothing calls it: it has no address
		delivery(t, db, "4-4", 4, 1, "s8", "pending", nil, since(9000))               // it is deactivated
		for id, again := range map[string]string{"4-5": `updated_at = ?, series = 0`, // redelivered
			"4-6": `last_started_at = ?, attempts = 3`} {
			delivery(t, db, id, 4, 2, "s1", "pending", nil, since(8000))
			databasetest.Exec(t, db, `UPDATE webhook_deliveries SET `+again+` WHERE id = ?`, since(700), id)
		}
		request(t, db, 5, "enqueued", 1, since(5), nil)
		delivery(t, db, "5-1", 5, 1, "own", "pending", 8, since(5))
		delivery(t, db, "5-2", 5, 1, "acme", "pending", 8, since(900))
		request(t, db, 6, "estimated", 1, since(900), nil) // by another service, before its own delivery
		delivery(t, db, "6-1", 6, 1, "own", "pending", 8, since(3))
		request(t, db, 7, "failed", 1, since(900), nil)
		delivery(t, db, "7-1", 7, 1, "own", "dead", nil, since(900))
		delivery(t, db, "7-2", 7, 1, "acme", "failed", nil, since(900))
		request(t, db, 8, "selected", 1, since(900), nil)
		delivery(t, db, "8-1", 8, 1, "own", "delivered", nil, since(900))
		delivery(t, db, "8-2", 8, 1, "acme", "dead", nil, since(900))
		for i, r := range []struct {
			url, paused string
			active      bool
			failing     any
		}{
			{"https://x", "", true, nil}, {"https://x", "", true, 1}, {"https://x", "", true, 1},
			{"https://x", "operator", true, 1}, {"https://x", "supplier", true, nil}, {"https://x", "service", true, 1},
			{"", "", true, 1}, {"", "service", true, nil}, {"https://x", "", false, 1}, {"https://x", "", false, nil},
		} {
			supplier(t, db, fmt.Sprint("s", i), r.url, r.active, r.failing, r.paused)
		}
		want := Counts{At: noon, Enqueued: 5, FailedRequests: 1, Oldest: 50 * time.Second, Pending: 7 + 3,
			OldestPending: 900 * time.Second, Dead: 2, Failed: 1,
			Active: 1, Failing: 2, Paused: 3, Backlog: 3 + 2} // estimations, and deliveries to the own endpoint
		if got, err := at(db, noon).Count(t.Context()); err != nil || got != want {
			t.Errorf("%+v, want %+v: %v", got, want, err)
		}
	})
}

// numbers returns a table of n numbers.
func numbers(n int) string {
	return fmt.Sprintf(`(WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < %d)
		SELECT n FROM n) AS n`, n)
}

func TestCounts_are_exact_up_to_100000_which_means_that_or_more(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		databasetest.Exec(t, db, `
			INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts,
				series, next_attempt_at, created_at, updated_at, worker)
			SELECT '1' || n, n, 1, 'acme', 'acme', n,
				CASE WHEN n % 10 < 5 THEN 'pending' WHEN n % 10 < 9 THEN 'failed' ELSE 'dead' END, 1, 1, 1, 1, 1,
				CASE WHEN n % 10 < 2 THEN 1 END FROM `+numbers(250_000))
		databasetest.Exec(t, db, `
			INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid,
				shard, created_at, updated_at)
			SELECT 'acme', n, 'enqueued', '', '', '', '', n, 0, 1, 1 FROM `+numbers(100_003))
		got, err := at(db, noon).Count(t.Context())
		if err != nil || got.Pending != 100_000 || got.Failed != 100_000 || got.Dead != 25_000 || got.Enqueued != 100_000 {
			t.Errorf("%+v, %v", got, err)
		}
		databasetest.Exec(t, db, `DELETE FROM material_requests WHERE id > 99999`)
		databasetest.Exec(t, db, `DELETE FROM webhook_deliveries
			WHERE status = 'pending' AND uid > 249998 OR status = 'failed' AND uid = 5`)
		databasetest.Exec(t, db, `DELETE FROM webhook_deliveries WHERE status = 'pending' AND uid <= 50000`)
		got, err = at(db, noon).Count(t.Context())
		if err != nil || got.Pending != 99_999 || got.Failed != 99_999 || got.Enqueued != 99_999 {
			t.Errorf("then %+v, %v", got, err)
		}
	})
}

// waits makes the receiver's earliest delivery due and, of its deliveries, as many as are given by then.
func waits(t *testing.T, db *database.DB, to string, by time.Time, now, later int) {
	t.Helper()
	databasetest.Exec(t, db, `UPDATE webhook_receivers SET due_at = ? WHERE supplier_id = ?`, by.UnixMicro(), to)
	for i := range now + later {
		id := fmt.Sprint("1-", to, "-", i)
		delivery(t, db, id, 1, 1, to, "pending", nil, 1)
		if at := by.Add(time.Hour); i >= now {
			databasetest.Exec(t, db, `UPDATE webhook_deliveries SET next_attempt_at = ? WHERE id = ?`, at.UnixMicro(), id)
		}
	}
}

func TestBacklog_counts_what_workers_could_do_by_now(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for i, at := range []any{noon.UnixMicro(), noon.Add(-time.Hour).UnixMicro(), noon.UnixMicro() + 1, nil} {
			request(t, db, int64(i+1), "enqueued", 1, 1, at) // the last has its estimates
		}
		for i, paused := range []string{"", "", "supplier", ""} {
			supplier(t, db, fmt.Sprint("s", i), "https://x", true, 1, paused)
		}
		waits(t, db, "own", noon, 3, 4)
		waits(t, db, "s0", noon, 5, 1)
		waits(t, db, "s1", noon.Add(-time.Hour), 1, 0)
		waits(t, db, "s2", noon, 10, 0) // paused
		waits(t, db, "s3", noon.Add(time.Second), 0, 10)
		delivery(t, db, "1-in hand", 1, 1, "s0", "pending", 7, 1)
		delivery(t, db, "1-done", 1, 1, "s0", "delivered", nil, 1)
		const want = 2 + 3 + 5 + 1
		if got, err := at(db, noon).Counts(t.Context()); err != nil || got.Backlog != want {
			t.Errorf("%d, want %d: %v", got.Backlog, want, err)
		}
	})
}

func TestCounts_are_made_once_a_step_and_read_by_all(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		var wait sync.WaitGroup
		for step := range 3 {
			request(t, db, int64(step+1), "enqueued", 1, 1, step)
			now := noon.Add(time.Duration(step) * StepLength)
			for i := range 5 { // processes, each of which looks several times
				wait.Go(func() {
					for look := range 4 {
						_, _ = at(db, now.Add(time.Duration(i+look)*time.Millisecond)).Counts(t.Context())
					}
				})
			}
			wait.Wait()
			request(t, db, int64(100+step), "enqueued", 1, 1, step) // after the count
			first, err := at(db, now.Add(time.Second)).Counts(t.Context())
			if err != nil || first.Enqueued != int64(2*step+1) {
				t.Errorf("step %d: %+v, %v", step, first, err)
			}
			last := at(db, now.Add(StepLength-time.Second))
			if again, err := last.Counts(t.Context()); err != nil || again != first || last.Newest() != first {
				t.Errorf("step %d: another process shows %+v, %v", step, again, err)
			}
		}
		var rows int
		if err := db.From(t.Context()).Raw(`SELECT count(*) FROM gauges`).Scan(&rows).Error; err != nil || rows != 3 {
			t.Errorf("%d rows: %v", rows, err)
		}
	})
}

// The lock is a transaction's: another process's lock ends with it.
func TestCounts_of_a_process_that_dies_at_it_are_made_by_the_next_that_looks(t *testing.T) {
	t.Parallel()
	address := databasetest.Postgres(t)
	db, other := databasetest.OpenURL(t, address, ""), databasetest.OpenURL(t, address, "")
	if _, err := at(db, noon).Counts(t.Context()); err != nil {
		t.Fatal(err)
	}
	late, gone := noon.Add(StepLength), errors.New("gone")
	err := other.InTx(t.Context(), "test", func(ctx context.Context) error {
		if held, err := other.TryLock(ctx, "gauges"); err != nil || !held {
			t.Errorf("held %v: %v", held, err)
		}
		if old, err := at(db, late).Counts(t.Context()); err != nil || !old.At.Equal(noon) {
			t.Errorf("while another counts: %+v, %v", old, err)
		}
		unknown := at(db, noon.Add(outdated+time.Millisecond))
		if old, err := unknown.Counts(t.Context()); err == nil || old != (Counts{}) || unknown.Newest() != old {
			t.Errorf("when it has taken too long: %+v", old)
		}
		return gone
	})
	if !errors.Is(err, gone) {
		t.Fatal(err)
	}
	if fresh, err := at(db, late).Counts(t.Context()); err != nil || !fresh.At.Equal(late) {
		t.Errorf("%+v, %v", fresh, err)
	}
}

func TestCounts_follow_a_clock_that_is_set_back(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for i, now := range []time.Time{noon, noon.Add(time.Hour), noon.Add(3 * time.Second), noon.Add(-time.Hour),
			noon} {
			request(t, db, int64(i+1), "enqueued", 1, 1, i)
			if got, err := at(db, now).Counts(t.Context()); err != nil || !got.At.Equal(now) || got.Enqueued != int64(i+1) {
				t.Errorf("look %d: %+v, %v", i, got, err)
			}
		}
	})
}

// scans finds where a plan reads a table: the index, or the table where there is none, and how that is bounded.
var scans = regexp.MustCompile(`(\w+ )Scan (?:Backward )?(?:using|on) (\S+).*(?:\n +Index Cond: .*)?`)

// The figures are counted by the indexes of just their rows, keys are looked up one by one, and nothing is read that is
// behind the limit, whatever state the tables are in.
func TestCounts_never_walk_through_what_is_well(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	for _, state := range []string{
		`SELECT 1`, `ANALYZE`,
		`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid, shard, created_at,
				updated_at)
			SELECT 'acme', n, CASE WHEN n < 9 THEN 'enqueued' ELSE 'estimated' END, '', '', '', '', n, 0, 1, 1
			FROM ` + numbers(20_000),
		`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series,
				next_attempt_at, created_at, updated_at)
			SELECT 'msg_1000' || n, n, 1, 'own', 'acme', n,
				CASE WHEN n % 100 = 0 THEN 'dead' WHEN n % 100 = 1 THEN 'pending' ELSE 'delivered' END, 1, 1, n, n, n
			FROM ` + numbers(20_000),
		`INSERT INTO suppliers (id, name, webhook_url, access_ttl, refresh_ttl, scopes, created_at, updated_at)
			SELECT 's' || n, '', 'https://x', 1, 1, '', 1, 1 FROM ` + numbers(20_000),
		`INSERT INTO webhook_receivers (supplier_id, shard, failing_since, updated_at)
			SELECT 's' || n, 1, CASE WHEN n % 1000 = 0 THEN 1 END, 1 FROM ` + numbers(20_000),
		`ANALYZE`, `VACUUM`,
	} {
		databasetest.Exec(t, db, state)
		plan := databasetest.Plan(t, db, store{db}.counting(), noon.UnixMicro())
		lines := scans.FindAllStringSubmatch(plan, -1)
		for _, line := range lines {
			narrow := slices.Contains([]string{"material_requests_enqueued", "material_requests_failed",
				"webhook_deliveries_0_worker_idx", "webhook_deliveries_0_status_uid_round_idx",
				"webhook_deliveries_0_destination_next_attempt_at_idx", "suppliers_with_receiver", "webhook_receivers_ill",
				"c", "r", "r_1", "material_requests_due", "webhook_receivers_due"}, line[2])
			key := line[2] == "suppliers_pkey" && strings.Contains(line[0], "Index Cond: ")
			if !narrow && !key || line[1] == "Bitmap " || line[1] == "Seq " {
				t.Errorf("after %.30s it reads %s:\n%s", state, line[0], plan)
			}
		}
		if to := strings.Count(plan, "(destination = webhook_receivers.supplier_id) AND (next_attempt_at <= "); to != 1 {
			t.Errorf("after %.30s what is due to a receiver is not looked up by its index:\n%s", state, plan)
		}
		if len(lines) < 15 {
			t.Errorf("after %.30s:\n%s", state, plan)
		}
	}
	if got, err := at(db, noon).Count(t.Context()); err != nil || got.Failing != 20 || got.Dead != 200 ||
		got.Enqueued != 8 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCounts_on_sqlite_go_by_indexes_alone(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	plan := databasetest.Plan(t, db, store{db}.counting(), noon.UnixMicro())
	for line := range strings.Lines(plan) {
		of := strings.Fields(line)
		if of[0] == "SCAN" && len(of[1]) > 1 && !strings.Contains(line, " INDEX ") {
			t.Errorf("%s of\n%s", line, plan)
		}
	}
	if n := strings.Count(plan, "TEMP B-TREE"); n > 1 { // of the receivers of the 10,000 oldest deliveries
		t.Errorf("%d times rows are sorted by\n%s", n, plan)
	}
}

func TestProcesses_are_those_that_recorded_lately(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, p := range []struct {
			Process
			last time.Time
		}{
			{Process{"worker", "v2", noon}, noon}, {Process{"worker", "v1", noon.Add(-time.Hour)}, noon.Add(-20 * time.Second)},
			{Process{"api", "v1", noon.Add(-time.Minute)}, noon}, {Process{"api", "v0", noon}, noon.Add(-time.Minute)},
			{Process{"both", "v0", noon}, noon.Add(time.Minute)}, // before the clock was set back
		} {
			if err := at(db, p.last).Record(t.Context(), p.Process); err != nil {
				t.Fatal(err)
			}
		}
		found, err := at(db, noon).Processes(t.Context())
		want := []Process{{"api", "v1", noon.Add(-time.Minute).UTC()}, {"worker", "v1", noon.Add(-time.Hour).UTC()},
			{"worker", "v2", noon.UTC()}}
		if err != nil || !slices.Equal(found, want) {
			t.Errorf("%+v, %v", found, err)
		}
	})
}
