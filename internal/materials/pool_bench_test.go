package materials_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/materials/work"
	"github.com/supplyhub/supplyhub/internal/round"
)

// carrier is an estimator that takes 50 ms for a request.
type carrier struct{}

func (carrier) Estimate(context.Context, estimates.Request) (estimates.Result, error) {
	time.Sleep(50 * time.Millisecond)
	return estimates.Result{}, nil
}

// BenchmarkPool measures how many requests a second several workers estimate, each of which has so many estimations
// under way, while each takes 50 ms: a pool that is scaled out is faster by as much.
func BenchmarkPool(b *testing.B) {
	for _, workers := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			db := databasetest.Open(b, database.Postgres)
			const suppliers, each = 512, 4
			w := &world{db: db}
			for s := range suppliers {
				id := fmt.Sprintf("s%d", s)
				err := db.From(b.Context()).Exec(`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body,
						trace_id, uid, shard, due_at, created_at, updated_at)
					SELECT ?, n, 'enqueued', '', '', '{"id":1,"shop_code":"s","materials":[]}', '', ? + n, ?, 1, 1, 1
					FROM generate_series(1, ?) AS n`, id, s*each, round.ShardOf(id), each).Error
				if err != nil {
					b.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(b.Context())
			b.Cleanup(stop)
			for n := range workers {
				s := work.New(work.Deps{DB: db, Log: slog.New(slog.DiscardHandler), Now: time.Now, Local: time.Now, Outbox: w,
					Catalogue: w, Estimator: carrier{}, Flushers: 2, AtOnce: 8,
					Ledger: materials.NewRequestLedger(db, slog.New(slog.DiscardHandler), time.Now, nil)})
				b.Cleanup(s.Close)
				shards := allShards()[n*round.Shards/workers : (n+1)*round.Shards/workers]
				s.Own(shards, shards)
				go func() { _ = s.Run(ctx) }()
			}
			begin := time.Now()
			for len(w.sentKeys()) < suppliers*each {
				time.Sleep(time.Millisecond)
			}
			b.ReportMetric(suppliers*each/time.Since(begin).Seconds(), "requests/s")
			stop()
		})
	}
}
