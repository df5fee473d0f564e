package sending_test

import (
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

func TestExpire_drops_what_only_a_receiver_keeps_and_empties_what_one_request_keeps(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	ctx, r, now := t.Context(), newRig(t, db, setup{idle: true}), time.Now()
	for n := range 5 {
		for more := true; more; {
			err := db.From(ctx).Raw(`SELECT advance_webhook_partitions(?, 1)`,
				now.AddDate(0, 0, n).UnixMicro()).Scan(&more).Error
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	r.exec(`UPDATE webhook_partitions SET closed_at = ? WHERE closed_at IS NOT NULL`, now.Add(-time.Minute).UnixMicro())
	list, err := r.Partitions(ctx)
	if err != nil || len(list) != 5 {
		t.Fatalf("partitions %+v: %v", list, err)
	}
	for id, one := range []struct {
		supplier, status string
		partition        int
		made             time.Time
	}{
		{"acme", "estimated", 1, now},                     // pending to a receiver that does not come back
		{"other", "estimated", 1, now},                    //
		{"acme", "enqueued", 2, now},                      // it keeps the partition …
		{"other", "estimated", 2, now},                    // … and not this one
		{"other", "estimated", 3, now.Add(2 * time.Hour)}, // made by a clock that was ahead
	} {
		e := event(one.supplier, int64(id), 1)
		e.Round.UID = list[one.partition].First + int64(id) + 1
		r.add(e)
		r.exec(`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid, shard,
			created_at,
			updated_at) VALUES (?, ?, ?, '', '', '', '', ?, 0, ?, ?)`, one.supplier, id, one.status, e.Round.UID,
			one.made.UnixMicro(), one.made.UnixMicro())
	}
	r.exec(`UPDATE webhook_deliveries SET status = 'delivered' WHERE destination = 'own'`)
	service := operator.New(operator.Deps{DB: db, Now: time.Now, Events: r.Dispatcher, Partitions: r.Dispatcher})
	var done []string
	sum, err := service.Expire(ctx, operator.Before(now.Add(time.Hour)), func(p round.Partition, kept string) {
		number := slices.IndexFunc(list, func(q round.Partition) bool { return q.Name == p.Name })
		done = append(done, fmt.Sprint(number, kept))
	})
	const kept = "requests are enqueued or were changed of late"
	if want := []string{"0", "1", "2" + kept, "3" + kept}; err != nil || sum.Requests != 3 || !slices.Equal(done, want) {
		t.Errorf("%+v, partitions %q, want %q: %v", sum, done, want, err)
	}
	var left []int
	if err := db.From(ctx).Raw(`SELECT id FROM material_requests ORDER BY id`).Scan(&left).Error; err != nil ||
		!slices.Equal(left, []int{2, 4}) {
		t.Errorf("requests %v are left: %v", left, err)
	}
	for _, d := range r.list(deliveries.Filter{}) {
		if d.RequestID != 2 && d.RequestID != 4 {
			t.Errorf("left is %+v", d)
		}
	}
}
