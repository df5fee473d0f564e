package work

import (
	"fmt"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/round"
)

func TestLook_goes_on_at_once_while_it_left_something_out(t *testing.T) {
	t.Parallel()
	rows := func(supplier string, n int) []dueRound {
		list := make([]dueRound, n)
		for i, r := range some(supplier, 1, int64(n)) {
			list[i].Round = r
		}
		return list
	}
	l := looker{after: map[int]string{}}
	if l.went(append(rows("acme", lookEach-1), rows("brico", 1)...)) || len(l.after) > 0 {
		t.Error("a look that saw all is not the last one")
	}
	if !l.went(append(rows("acme", lookEach), rows("brico", 1)...)) || len(l.after) > 0 {
		t.Error("more of a supplier is forgotten, or the next look passes it over")
	}
	if !l.went(rows("acme", lookMost)) || len(l.after) != 1 {
		t.Error("the next look begins at the front again")
	}
}

func TestLook_visits_every_supplier_before_it_begins_at_the_front_again(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		l, s, waiting := looker{after: map[int]string{}}, &store{db}, map[string]bool{}
		for shard := range round.Shards {
			l.owned = append(l.owned, shard)
		}
		type row struct {
			Supplier   string
			UID, Shard int
		}
		rows := []row{}
		for i := range 4*lookSuppliers + 200 {
			name := fmt.Sprintf("s%04d", i)
			if shard := round.ShardOf(name); shard%4 == 0 { // the others have none
				rows, waiting[name] = append(rows, row{name, i + 1, shard}), true
			}
		}
		databasetest.Exec(t, db, `INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id,
			uid, shard, due_at, created_at, updated_at) SELECT value->>'Supplier', 1, 'enqueued', '', 's', '', '',
			CAST(value->>'UID' AS bigint), CAST(value->>'Shard' AS bigint), 1, 1, 1 FROM `+database.Either(db.Dialect,
			`jsonb_array_elements($1::jsonb)`, `json_each($1)`), db.Values(rows))
		for more := true; more; {
			looks, _ := l.next(time.UnixMicro(2), true)
			found, err := s.due(t.Context(), looks, lookSuppliers, lookEach, lookMost)
			if err != nil || len(found) == 0 {
				t.Fatalf("%d suppliers have no turn, %v", len(waiting), err)
			}
			for _, r := range found {
				delete(waiting, r.SupplierID)
			}
			more = l.went(found)
		}
		if len(waiting) > 0 {
			t.Errorf("%d suppliers have no turn", len(waiting))
		}
	})
}

// Rounds that are in hand, or whose supplier's line is full, stay due: they must not hide those of others.
func TestSpread_suppliers_have_their_turns_behind_those_with_more_than_a_look_takes(t *testing.T) {
	t.Parallel()
	db := databasetest.OpenURL(t, databasetest.Spread(t), "")
	s := &store{db}
	due := func(supplier string, first, n, since int64) {
		t.Helper()
		_, err := database.Exec(t.Context(), db.SQL(t.Context()), `INSERT INTO material_requests (supplier_id, id, status,
			digest, shop_code, body, trace_id, uid, shard, due_at, created_at, updated_at)
			SELECT $1::text, n, 'enqueued', '', 's', '', '', $2::bigint + n, $3::bigint, $4::bigint + n, 1, 1
			FROM generate_series(1, $5::bigint) n`, supplier, first, round.ShardOf(supplier), since, n)
		if err != nil {
			t.Fatal(err)
		}
	}
	due("acme", 0, lookMost+1, 0)
	due("zeta", lookMost+1, 2, 10*lookMost)
	now := time.UnixMicro(10*lookMost + 1) // of zeta's rounds one is due
	shards := []int{round.ShardOf("acme"), round.ShardOf("zeta")}
	if shards[0] == shards[1] {
		shards = shards[:1]
	}
	l := looker{owned: shards, after: map[int]string{}}
	look := func() (found map[string][]int64, more bool) {
		t.Helper()
		looks, _ := l.next(now, true)
		rows, err := s.due(t.Context(), looks, lookSuppliers, lookEach, lookMost)
		if err != nil {
			t.Fatal(err)
		}
		found = map[string][]int64{}
		for _, r := range rows {
			found[r.SupplierID] = append(found[r.SupplierID], r.RequestID)
		}
		return found, l.went(rows)
	}
	found, more := look()
	if acme := found["acme"]; !more || len(acme) != lookEach || acme[0] != 1 || acme[lookEach-1] != lookEach ||
		len(found["zeta"]) != 1 {
		t.Errorf("of acme there are %d rounds, of zeta %v, and more: %t", len(acme), found["zeta"], more)
	}
	for i, supplier := range []string{"brico", "cargo", "delta"} { // with acme, they have all that one look takes
		due(supplier, int64(i+2)*2*lookMost, lookEach, 0)
		if shard := round.ShardOf(supplier); !database.Set(l.owned)[shard] {
			l.owned = append(l.owned, shard)
		}
	}
	for range 2 {
		if found, _ = look(); len(found["zeta"]) == 1 {
			return
		}
	}
	t.Error("zeta has no turn in two looks")
}
