package deliveries

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/round"
)

const day = 24 * time.Hour

// process is one of those that make partitions, at a day of its own clock.
func process(db *database.DB, now time.Time) *Keeper {
	return NewKeeper(KeeperDeps{DB: db, Now: func() time.Time { return now }})
}

// advanced returns the partitions after so many days, of one day each but the first: all are closed but the last.
func advanced(ctx context.Context, t *testing.T, db *database.DB, days int) []round.Partition {
	t.Helper()
	today := time.Now()
	for n := range days + 1 {
		if err := process(db, today.Add(time.Duration(n)*day)).Advance(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	list, err := process(db, today).Partitions(ctx)
	if err != nil || len(list) != days+1 {
		t.Fatalf("%+v: %v", list, err)
	}
	return list
}

// idOf returns the webhook-id of an event that a test stored with its uid as the nonce, at 1.
func idOf(uid int64, kind round.Kind) string {
	return round.Event{UID: uid, At: 1, Nonce: uid}.WebhookID(kind)
}

// partitionRows stores the deliveries to acme and to the own endpoint of n requests of the partition, ten requests a
// second from the time on. One of a hundred is dead.
func partitionRows(ctx context.Context, t *testing.T, db *database.DB, p round.Partition, n, at int) {
	t.Helper()
	supplierRows(ctx, t, db, p, n, at, func(int) string { return "acme" })
}

// supplierRows are partitionRows of the suppliers that the function returns.
func supplierRows(ctx context.Context, t *testing.T, db *database.DB, p round.Partition, n, at int,
	supplier func(int) string) {
	t.Helper()
	var ids, destinations, suppliers []string
	var numbers []int64
	for i := range n {
		uid, name := max(p.First, 0)+int64(i)+1, supplier(i)
		ids = append(ids, idOf(uid, round.OwnEndpoint), idOf(uid, round.Receiver))
		destinations, suppliers = append(destinations, OwnEndpoint, name), append(suppliers, name, name)
		numbers = append(numbers, uid, uid)
	}
	_, err := db.SQL(ctx).ExecContext(ctx, `
		WITH events AS (INSERT INTO webhook_events (uid, round, nonce, supplier_id, trace_id, body, created_at)
			SELECT DISTINCT u, 1, u, s, '', ''::bytea, 1 FROM unnest($3::bigint[], $6::text[]) AS rows(u, s)),
		attempts AS (INSERT INTO webhook_attempts (delivery_id, supplier_id, number, started_at)
			SELECT i, s, 1, 1 FROM unnest($1::text[], $6::text[]) AS rows(i, s))
		INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series,
			next_attempt_at, created_at, updated_at, last_started_at, last_status)
		SELECT i, u, 1, d, s, u, CASE u % 100 WHEN 0 THEN 'dead' ELSE 'delivered' END, 2, 2, 0,
			($4 + (u - $5)) * 100000, 1, 1, 200
		FROM unnest($1::text[], $2::text[], $3::bigint[], $6::text[]) AS rows(i, d, u, s)`, ids,
		destinations, numbers, at, max(p.First, 0), suppliers)
	if err != nil {
		t.Fatal(err)
	}
}

func TestPartitions_begin_at_the_webhook_ids_of_their_day(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	for _, uid := range []int64{0, 1, 31, 1 << 36, 20781 << 36, 20781<<36 - 1, 1<<53 + 12345} {
		var got string
		err := db.From(t.Context()).Raw(`SELECT webhook_border(?)`, uid).Scan(&got).Error
		if want := round.Border(uid); err != nil || got != want {
			t.Errorf("%d: %s, want %s: %v", uid, got, want, err)
		}
	}
}

// advanceUntilAhead advances until there is a partition ahead of that day: while another process does, it is refused.
func advanceUntilAhead(ctx context.Context, db *database.DB, now time.Time) error {
	for ahead := false; !ahead; {
		if err := process(db, now).Advance(ctx, 2); err != nil {
			return err
		}
		err := db.From(ctx).Raw(`SELECT opened_at IS NULL AND first_uid >> 36 > ? FROM webhook_partitions
			ORDER BY first_uid DESC LIMIT 1`, now.Unix()/86400).Scan(&ahead).Error
		if err != nil {
			return err
		}
	}
	return nil
}

func TestNumbers_jump_into_the_next_partition_at_its_day_and_never_back(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	ctx, today := t.Context(), time.Now()
	tomorrow := today.Add(day)
	if err := process(db, today).Advance(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if n, err := db.Numbers(ctx, 1); err != nil || n > 10 {
		t.Fatalf("the first number of the first day is %d: %v", n, err)
	}
	var wait sync.WaitGroup
	for range 2 { // processes, one day after the other, while a third takes numbers
		wait.Go(func() {
			for n := range 6 {
				if err := advanceUntilAhead(ctx, db, tomorrow.Add(time.Duration(n)*day)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var last int64
	for range 200 {
		n, err := db.Numbers(ctx, 1)
		if err != nil || n <= last {
			t.Fatalf("%d after %d: %v", n, last, err)
		}
		last = n
		ownRows(ctx, t, db, n, n, Delivered)
	}
	wait.Wait()
	if err := process(db, tomorrow).Advance(ctx, 2); err != nil { // its clock is behind
		t.Fatal(err)
	}
	list, err := process(db, tomorrow).Partitions(ctx)
	if err != nil || len(list) != 4 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, p := range list[1:] {
		first := (tomorrow.Unix()/86400 + int64(2*i)) << 36
		if p.First != first || p.End != first+2<<36 || p.Closed.IsZero() != (i == 2) || !p.Opened.Equal(list[i].Closed) {
			t.Errorf("partition %d: %+v, want from %d on", i, p, first)
		}
	}
	n, err := db.Numbers(ctx, 1)
	if err != nil || n <= list[3].First || n <= last || n > list[3].First+1000 {
		t.Fatalf("%d after %d: %v", n, last, err)
	}
	ownRows(ctx, t, db, n+5<<35, n+5<<35, Delivered) // days later, and no process made partitions
}

func TestDrop_leaves_every_page_of_what_is_kept_exact(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	ctx, d := t.Context(), process(db, time.Now())
	list := advanced(ctx, t, db, 4)
	for i, p := range list[:4] {
		partitionRows(ctx, t, db, p, 2500, 2000*i) // times overlap at the borders, as a later round's do
	}
	filters := []Filter{{}, {Receiver: "acme"}, {Status: Dead}, {Receiver: "acme", Status: Dead, Since: tenth(3000)}}
	tables := []string{"webhook_events", "webhook_deliveries", "webhook_attempts"}
	for _, p := range list[:3] {
		if why, err := d.Drop(ctx, p); err != nil || why != "" {
			t.Fatalf("partition %s is kept as %q: %v", p.Name, why, err)
		}
		samePages(ctx, t, db, filters...)
		for range tables {
			if is, err := d.deleteDropped(ctx); err != nil || !is {
				t.Errorf("a table of partition %s is deleted %v: %v", p.Name, is, err)
			}
		}
		if is, err := d.deleteDropped(ctx); err != nil || is {
			t.Errorf("another table is deleted with partition %s: %v", p.Name, err)
		}
		for _, table := range tables {
			var there bool
			err := db.From(ctx).Raw(`SELECT to_regclass(?) IS NOT NULL`, table+"_"+p.Name).Scan(&there).Error
			if err != nil || there {
				t.Errorf("%s of partition %s is there: %v", table, p.Name, err)
			}
		}
	}
	ledger, err := d.Verify(ctx)
	if err != nil || ledger.Deliveries[Delivered]+ledger.Deliveries[Dead] != 5000 || len(ledger.Faults) > 0 {
		t.Errorf("%+v: %v", ledger, err)
	}
	if why, err := d.Drop(ctx, list[0]); err != nil || why != "" {
		t.Errorf("dropped once more: %q, %v", why, err)
	}
	if why, err := d.drop(ctx, list[4]); err != nil || why != "" {
		t.Errorf("the open one: %q, %v", why, err)
	}
	if rest, err := d.Partitions(ctx); err != nil || len(rest) != 2 {
		t.Errorf("partitions %+v: %v", rest, err)
	}
}

func TestDrop_keeps_what_is_redelivered_and_that_is_sent(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	ctx, d := t.Context(), process(db, time.Now())
	list := advanced(ctx, t, db, 3)
	p := list[1]
	partitionRows(ctx, t, db, p, 100, 0)
	id := idOf(p.First+100, round.Receiver)
	err := db.InTx(ctx, "test", func(ctx context.Context) error {
		if err := d.store.reopen(ctx, []string{id}, time.UnixMicro(5)); err != nil {
			return err
		}
		why, err := d.drop(context.WithoutCancel(t.Context()), p)
		if err != nil || !strings.Contains(why, "redelivered") {
			t.Errorf("while it is redelivered: %q, %v", why, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kept := func(what string) {
		t.Helper()
		if why, err := d.drop(ctx, p); err != nil || why != "deliveries are pending" {
			t.Errorf("%s: %q, %v", what, why, err)
		}
		if is, err := d.Unfinished(ctx, p); err != nil || !is {
			t.Errorf("%s: unfinished %v, %v", what, is, err)
		}
	}
	kept("pending")
	now := time.UnixMicro(10)
	var claimed []Claimed
	err = db.InTx(ctx, "test", func(ctx context.Context) (err error) {
		claimed, err = (&AttemptStore{d.store.Tables}).Claim(ctx, map[string]int{"acme": 5}, now, 7, 9)
		return err
	})
	if err != nil || len(claimed) != 1 || claimed[0].ID != id {
		t.Fatalf("claimed %+v: %v", claimed, err)
	}
	kept("attempted")
	claimed[0].Worker = 7
	_, err = (&AttemptStore{d.store.Tables}).Finish(ctx, []Result{NewResult(claimed[0].Begun, Answer{Status: 200},
		Outcome{Status: Delivered, Next: now}, now, time.Second)}, now)
	if err != nil {
		t.Fatal(err)
	}
	if is, err := d.Unfinished(ctx, p); err != nil || is {
		t.Errorf("unfinished %v, %v", is, err)
	}
	if why, err := d.Drop(ctx, p); err != nil || why != "" {
		t.Errorf("delivered: %q, %v", why, err)
	}
}

func TestDrop_with_a_long_reader_lets_others_in_between_its_tries(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	ctx, d := t.Context(), process(db, time.Now())
	p := advanced(ctx, t, db, 2)[1]
	partitionRows(ctx, t, db, p, 100, 0)
	dropped := make(chan string, 1)
	err := db.InTx(ctx, "test", func(reading context.Context) error {
		const first = `DECLARE reads CURSOR FOR SELECT id FROM webhook_deliveries; FETCH reads`
		if err := db.From(reading).Exec(first).Error; err != nil { // a page stays pinned, too
			return err
		}
		if why, err := d.drop(ctx, p); err != nil || why != "its tables are in use" {
			t.Errorf("with a reader that stays: %q, %v", why, err)
		}
		go func() {
			why, err := d.Drop(ctx, p)
			dropped <- fmt.Sprint(why, err)
		}()
		return db.From(ctx).Exec(`UPDATE webhook_deliveries SET updated_at = 2 WHERE uid = ?`, p.First+1).Error
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-dropped; got != "<nil>" {
		t.Errorf("once the reader is gone: %s", got)
	}
}

// A statement that names an id looks into one partition, whichever; a list by ids goes from partition to partition.
func TestPlans_look_into_the_partition_of_an_id_alone(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	list := advanced(t.Context(), t, db, 8)
	const one = "Subplans Removed: 9" // of ten
	id := idOf(list[3].First+1, round.OwnEndpoint)
	for _, tt := range []struct{ statement, arguments, executed, without string }{
		{`SELECT * FROM webhook_deliveries WHERE id = $1`, `'` + id + `'`, one, ""},
		{`SELECT * FROM webhook_attempts WHERE delivery_id = $1 AND number < 3`, `'` + id + `'`, one, ""},
		{`SELECT body FROM webhook_events WHERE uid = $1 AND round = 1`, fmt.Sprint(list[3].First), one, ""},
		{`UPDATE webhook_deliveries SET worker = NULL WHERE id = $1`, `'` + id + `'`, one, ""},
		{`SELECT * FROM webhook_deliveries WHERE id < $1 ORDER BY id DESC LIMIT 5`, `'` + id + `'`, "Subplans Removed: 6",
			"Sort"},
		{`SELECT uid FROM webhook_events WHERE uid > $1 ORDER BY uid, round LIMIT 5`, fmt.Sprint(list[3].First), "Index",
			"Sort"},
	} {
		err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
			kind := map[bool]string{true: "bigint", false: "text"}[strings.Contains(tt.statement, "uid")]
			if err := db.From(ctx).Exec(`PREPARE one (` + kind + `) AS ` + tt.statement).Error; err != nil {
				return err
			}
			lines, err := database.Query(ctx, db.SQL(ctx), `EXPLAIN EXECUTE one (`+tt.arguments+`)`, nil,
				func(line *string) []any { return []any{line} })
			plan := strings.Join(lines, "\n")
			if !strings.Contains(plan, tt.executed) || tt.without != "" && strings.Contains(plan, tt.without) {
				t.Errorf("%s:\n%s", tt.statement, plan)
			}
			_ = db.From(ctx).Exec(`DEALLOCATE one`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestDrop_keeps_a_partition_while_a_delivery_of_it_waits_or_is_attempted(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	ctx, d := t.Context(), process(db, time.Now())
	p := advanced(ctx, t, db, 2)[1]
	partitionRows(ctx, t, db, p, 100, 0)
	id := idOf(p.First+99, round.Receiver)
	for _, tt := range []struct{ set, want string }{
		{`status = 'pending'`, "deliveries are pending"}, {`worker = 7`, "deliveries are pending"},
		{`status = 'delivered', worker = NULL`, ""},
	} {
		exec(ctx, t, db, `UPDATE webhook_deliveries SET `+tt.set+` WHERE id = ?`, id)
		if why, err := d.drop(ctx, p); why != tt.want || err != nil {
			t.Errorf("after %s: %q, %v", tt.set, why, err)
		}
	}
}
