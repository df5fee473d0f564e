package webhooks

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/round"
)

// settledBy has the process settle what was closed before the time and returns the partitions that it did here.
func settledBy(ctx context.Context, t *testing.T, d *Dispatcher, until time.Time) (here []string) {
	t.Helper()
	err := d.Settle(ctx, time.UnixMicro(1), until, func(p round.Partition, is bool) {
		if is {
			here = append(here, p.Name)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return here
}

func names(list []round.Partition) (names []string) {
	for _, p := range list {
		names = append(names, p.Name)
	}
	return names
}

// look returns what the statement says of the partition's tables, whose names contain %.
func look(ctx context.Context, t *testing.T, db *database.DB, p round.Partition, statement string) (text string) {
	t.Helper()
	err := db.From(ctx).Raw(strings.ReplaceAll(statement, "%", "_"+p.Name)).Scan(&text).Error
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return text
}

const (
	these   = `('webhook_events%'::regclass, 'webhook_deliveries%'::regclass, 'webhook_attempts%'::regclass)`
	vacuums = `SELECT string_agg(vacuum_count::text, ' ' ORDER BY relname)
		FROM pg_stat_user_tables WHERE relid IN ` + these
	indexes = `SELECT count(*) || ' valid ' || bool_and(indisvalid)
			|| ' full ' || bool_and('fillfactor=100' = ANY(reloptions))
		FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indrelid = 'webhook_deliveries%'::regclass`
	files = `SELECT string_agg(pg_relation_filenode(indexrelid)::text, ' ' ORDER BY indexrelid) FROM pg_index
		WHERE indrelid = 'webhook_deliveries%'::regclass`
	bytes = `SELECT sum(pg_relation_size(indexrelid)) FROM pg_index WHERE indrelid = 'webhook_deliveries%'::regclass`
	five  = "5 valid true full true"
)

func TestSettle_vacuums_a_finished_day_and_makes_its_indexes_full_once(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	ctx := t.Context()
	list := advanced(ctx, t, db, 3)
	today := time.Now()
	d := process(db, today.Add(4*day))
	for _, p := range list {
		partitionRows(ctx, t, db, p, 2000, 0)
	}
	second := list[1]
	before := look(ctx, t, db, second, bytes)
	if here := settledBy(ctx, t, d, second.Closed.Add(time.Second)); !slices.Equal(here, names(list[:2])) {
		t.Errorf("settled %v, want what was closed for long", here)
	}
	if got := look(ctx, t, db, second, vacuums); got != "1 1 1" {
		t.Errorf("its tables were vacuumed %s times", got)
	}
	if got := look(ctx, t, db, second, indexes); got != five {
		t.Errorf("indexes: %s", got)
	}
	after, kept := look(ctx, t, db, second, bytes), look(ctx, t, db, second, files)
	if len(after) > len(before) || len(after) == len(before) && after >= before {
		t.Errorf("%s bytes of indexes, were %s", after, before)
	}
	if here := settledBy(ctx, t, d, today.Add(9*day)); !slices.Equal(here, names(list[2:3])) {
		t.Errorf("then settled %v, want the last closed alone", here)
	}
	if got := look(ctx, t, db, second, vacuums); got != "1 1 1" {
		t.Errorf("then its tables were vacuumed %s times", got)
	}
	if got := look(ctx, t, db, second, files); got != kept {
		t.Errorf("its indexes were made once more: %s, were %s", got, kept)
	}
	if got, err := d.Partitions(ctx); err != nil || got[1].Settled.IsZero() || !got[3].Settled.IsZero() {
		t.Errorf("%+v: %v", got, err)
	}
}

func TestSettle_waits_until_nothing_of_the_day_is_pending(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	ctx := t.Context()
	list := advanced(ctx, t, db, 3)
	today := time.Now()
	d := process(db, today.Add(4*day))
	partitionRows(ctx, t, db, list[1], 100, 0)
	id := idOf(list[1].First+100, round.Receiver)
	err := db.InTx(ctx, "test",
		func(ctx context.Context) error { return d.store.reopen(ctx, []string{id}, time.UnixMicro(5)) })
	if err != nil {
		t.Fatal(err)
	}
	if here := settledBy(ctx, t, d, today.Add(9*day)); !slices.Equal(here, []string{list[0].Name, list[2].Name}) {
		t.Errorf("settled %v, want all but what has a pending delivery", here)
	}
	if err := db.From(ctx).Exec(`UPDATE webhook_deliveries SET status = 'delivered' WHERE id = ?`, id).Error; err != nil {
		t.Fatal(err)
	}
	if here := settledBy(ctx, t, d, today.Add(9*day)); !slices.Equal(here, []string{list[1].Name}) {
		t.Errorf("then settled %v", here)
	}
}

func TestSettle_of_two_processes_is_done_by_one(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	ctx := t.Context()
	list := advanced(ctx, t, db, 4)
	today := time.Now()
	var wait sync.WaitGroup
	var both [3][]string
	for i := range both {
		wait.Go(func() { both[i] = settledBy(ctx, t, process(db, today.Add(5*day)), today.Add(9*day)) })
	}
	wait.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(both[:]...)))
	if !slices.Equal(all, names(list[:4])) {
		t.Errorf("settled %v, want each once", both)
	}
}

// A process that dies while it makes indexes anew leaves one that is not valid, and that every write fills.
func TestSettle_drops_the_indexes_that_a_process_left_which_died(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	ctx := t.Context()
	list := advanced(ctx, t, db, 2)
	p := list[1]
	partitionRows(ctx, t, db, p, 500, 0)
	now := time.Now().Add(3 * day)
	if held, err := process(db, now).store.leaseSettling(ctx, p, now); err != nil || !held {
		t.Fatalf("leased %v: %v", held, err)
	}
	dies(ctx, t, db, p)
	if here := settledBy(ctx, t, process(db, now.Add(settlingLease-time.Second)), now); slices.Contains(here, p.Name) {
		t.Error("settled while it is another's")
	}
	here := settledBy(ctx, t, process(db, now.Add(settlingLease+time.Second)), now)
	if !slices.Equal(here, []string{p.Name}) {
		t.Errorf("settled %v when the lease had run out", here)
	}
	if got := look(ctx, t, db, p, indexes); got != five {
		t.Errorf("indexes: %s", got)
	}
	if why, err := process(db, now).Drop(ctx, p); err != nil || why != "" {
		t.Errorf("dropped: %q, %v", why, err)
	}
}

// dies cuts off a REINDEX of the partition's deliveries, which waits for a writer, between its steps.
func dies(ctx context.Context, t *testing.T, db *database.DB, p round.Partition) {
	t.Helper()
	cut, die := context.WithCancel(ctx)
	ended := make(chan error, 1)
	err := db.InTx(ctx, "test", func(writing context.Context) error {
		err := db.From(writing).Exec(`LOCK TABLE webhook_deliveries_` + p.Name + ` IN ROW EXCLUSIVE MODE`).Error
		if err != nil {
			return err
		}
		go func() {
			_, err := db.Upkeep(cut, func(conn *sql.Conn) error {
				_, err := conn.ExecContext(cut, `REINDEX TABLE CONCURRENTLY webhook_deliveries_`+p.Name)
				return err
			})
			ended <- err
		}()
		for left := "0"; left == "0" && len(ended) == 0; {
			left = look(ctx, t, db, p, `SELECT count(*) FROM pg_index WHERE NOT indisvalid
				AND indrelid = 'webhook_deliveries%'::regclass`)
		}
		die()
		for at := "1"; at != "0"; { // the server hears of it later
			at = look(ctx, t, db, p, `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND state = 'active' AND query ~ '^REINDEX'`)
		}
		return nil
	})
	if err := <-ended; err == nil {
		t.Fatal("the indexes were made anew while a writer was at work")
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := look(ctx, t, db, p, indexes); got == five || !strings.Contains(got, "valid false") {
		t.Fatalf("indexes: %s", got)
	}
}

func TestSettle_leaves_to_autovacuum_what_the_role_does_not_own(t *testing.T) {
	t.Parallel()
	ctx, owner := t.Context(), databasetest.Postgres(t)
	db := databasetest.OpenURL(t, owner, "")
	databasetest.Script(t, owner, "../../deployments/postgres-roles.sql")
	for _, grant := range []string{
		`GRANT SELECT, UPDATE (kept, settled_at, settling_until) ON webhook_partitions TO supplyhub_api`,
		`GRANT EXECUTE ON FUNCTION advance_webhook_partitions(bigint, bigint), drop_webhook_partition(bigint),
			settle_webhook_partition(bigint, bigint, bigint), delete_webhook_table() TO supplyhub_api`,
	} {
		if err := db.From(ctx).Exec(grant).Error; err != nil {
			t.Fatal(err)
		}
	}
	api := databasetest.OpenURL(t, databasetest.As(t, owner, "supplyhub_api"), "")
	list := advanced(ctx, t, api, 2)
	d := process(api, time.Now().Add(3*day))
	for range 2 {
		if here := settledBy(ctx, t, d, time.Now().Add(9*day)); len(here) > 0 {
			t.Errorf("settled %v", here)
		}
	}
	for _, p := range list[:2] {
		options := look(ctx, t, db, p, `SELECT count(*) FILTER (WHERE 'autovacuum_freeze_min_age=0' = ANY(reloptions)
			AND 'autovacuum_vacuum_insert_scale_factor=0' = ANY(reloptions)) FROM pg_class WHERE oid IN `+these)
		if options != "3" {
			t.Errorf("partition %s: autovacuum comes soon to %s of 3 tables", p.Name, options)
		}
	}
	if got, err := d.Partitions(ctx); err != nil || got[1].Settled.IsZero() {
		t.Errorf("%+v: %v", got, err)
	}
	if why, err := d.Drop(ctx, list[0]); err != nil || why != "" {
		t.Errorf("dropped: %q, %v", why, err)
	}
}

func TestDrop_vacuums_a_partition_that_was_never_settled(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	ctx := t.Context()
	p := advanced(ctx, t, db, 2)[1]
	partitionRows(ctx, t, db, p, 500, 0)
	if err := process(db, time.Now()).store.visible(ctx, p); err != nil {
		t.Fatal(err)
	}
	if got := look(ctx, t, db, p, vacuums); got != "0 1 0" {
		t.Errorf("its attempts, deliveries and events were vacuumed %s times", got)
	}
}
