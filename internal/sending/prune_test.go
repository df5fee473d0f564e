package sending_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/materials/operator"
	"github.com/supplyhub/supplyhub/internal/round"
)

// sliced notes how many events each transaction of retention deletes. The transaction of number lost does not commit.
type sliced struct {
	operator.Events
	each []int64
	lost int
}

func (s *sliced) Forget(ctx context.Context, requests []round.Round, upTo int64) (int64, error) {
	events, err := s.Events.Forget(ctx, requests, upTo)
	if s.each = append(s.each, events); len(s.each) == s.lost {
		err = errors.New("the process is lost")
	}
	return events, err
}

// Requests of any number of rounds are deleted by transactions of a bounded number, and the earliest rounds go first:
// whatever is left of a request is right, and the next run deletes it.
func TestPrune_deletes_so_many_rounds_a_transaction_the_earliest_first(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx, r := t.Context(), newRig(t, db, setup{idle: true})
		const most = 1000
		rounds := []int64{1, most - 2, 2, 2*most + 50, 1, 40, most + 200}
		for i, n := range rounds {
			var events []round.Outgoing
			for number := range n {
				e := event("acme", int64(i), number+1)
				e.Round.UID = int64(i) + 1
				events = append(events, e)
			}
			r.add(events...)
			r.exec(`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid, shard,
				round, created_at, updated_at) VALUES ('acme', ?, 'estimated', '', '', '', '', ?, 0, ?, 1, 1)`, i, i+1, n)
		}
		r.exec(`INSERT INTO material_rounds (uid, number, request_id, created_at, supplier_id, status, failure)
			SELECT e.uid, e.round, m.id, 1, 'acme', 'estimated', '' FROM webhook_events e JOIN material_requests m
			ON m.supplier_id = e.supplier_id AND m.uid = e.uid AND m.round > e.round`)
		r.exec(`UPDATE webhook_deliveries SET status = 'delivered'`)
		r.exec(`UPDATE webhook_deliveries SET status = 'pending' WHERE destination = 'own'
			AND (uid = 6 AND round = 20 OR uid = 7 AND round = ?)`, most+100)
		left := func() string {
			t.Helper()
			var all []string
			for _, of := range []string{`webhook_events`, `webhook_deliveries WHERE destination = 'own'`,
				`webhook_deliveries WHERE destination <> 'own'`,
				`(SELECT uid, number AS round FROM material_rounds UNION ALL SELECT uid, round FROM material_requests) AS known`} {
				var rows []struct{ UID, First, Last, N int64 }
				err := db.From(ctx).Raw(`SELECT uid, min(round) AS first, max(round) AS last, count(*) AS n FROM ` + of +
					` GROUP BY uid ORDER BY uid`).Scan(&rows).Error
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, fmt.Sprint(rows))
			}
			if all = slices.Compact(all); len(all) != 1 {
				t.Errorf("the tables differ: %v", all)
			}
			return all[0]
		}
		for _, run := range []struct {
			lost int
			each []int64
			want operator.Pruned
			left string
		}{
			{3, []int64{most - 1, 2, most}, operator.Pruned{Requests: 3, Events: 2*most + 1},
				fmt.Sprintf("[{4 1 %d %[1]d} {5 1 1 1} {6 1 40 40} {7 1 %d %[2]d}]", 2*most+50, most+200)},
			{2, []int64{most, most}, operator.Pruned{Events: 2 * most},
				fmt.Sprintf("[{4 %d %d %d} {5 1 1 1} {6 1 40 40} {7 1 %d %[4]d}]", most+1, 2*most+50, most+50, most+200)},
			{0, []int64{0, most, 50, 1, most}, operator.Pruned{Requests: 2, Events: 2*most + 51},
				fmt.Sprintf("[{6 1 40 40} {7 %d %d 200}]", most+1, most+200)},
		} {
			s := &sliced{Events: r.Dispatcher, lost: run.lost}
			service := operator.New(operator.Deps{DB: db, Now: time.Now, Events: s})
			p, err := service.Prune(ctx, operator.Before(time.UnixMicro(5)))
			if !slices.Equal(s.each, run.each) || p != run.want || (err != nil) != (run.lost > 0) {
				t.Errorf("deleted are %v, %+v, want %v, %+v: %v", s.each, p, run.each, run.want, err)
			}
			if got := left(); got != run.left {
				t.Errorf("left is %s, want %s", got, run.left)
			}
		}
		if n := len(r.list(deliveries.Filter{Status: deliveries.Pending})); n != 2 {
			t.Errorf("%d deliveries are pending", n)
		}
	})
}
