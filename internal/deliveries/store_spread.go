package deliveries

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// The statements that differ where Citus spreads the tables over several servers; see database/spread.go.

// claimSpread claims supplier by supplier. The deliveries to the own endpoint belong to many suppliers: those are
// looked up first.
func (s *AttemptStore) claimSpread(ctx context.Context, wants map[string]int, now time.Time, worker, attempts int64) (
	[]Claimed, error) {
	var claimed []Claimed
	for _, destination := range slices.Sorted(maps.Keys(wants)) {
		suppliers, left := []string{destination}, wants[destination]
		if destination == OwnEndpoint {
			var err error
			if suppliers, err = s.ownDue(ctx, now, left); err != nil {
				return nil, err
			}
		}
		for _, supplier := range suppliers {
			if left <= 0 {
				break
			}
			some, err := s.claimOf(ctx, s.dueFirst([]string{supplier}), []string{supplier}, []string{destination},
				[]int64{int64(left)}, now, worker, attempts)
			if err != nil {
				return nil, err
			}
			claimed, left = append(claimed, some...), left-len(some)
		}
	}
	return claimed, nil
}

// ownDue returns the suppliers of the deliveries to the own endpoint that have been due for the longest.
func (s *AttemptStore) ownDue(ctx context.Context, now time.Time, limit int) ([]string, error) {
	suppliers, err := database.Column[string](ctx, s.DB.SQL(ctx), `SELECT DISTINCT supplier_id FROM (
			SELECT supplier_id FROM webhook_deliveries
			WHERE status = 'pending' AND worker IS NULL AND destination = 'own' AND next_attempt_at <= $1
			ORDER BY next_attempt_at LIMIT $2) AS due ORDER BY supplier_id`, now.UnixMicro(), limit)
	return suppliers, errs.Doing("look whose webhook deliveries are due", err)
}

// lockDueSpread reads the worker's shards first: they are on another server than the receivers. A shard may move
// between the two statements. Then two workers may claim for one receiver for a moment; a delivery is still claimed
// once, as its row is locked.
func (s *DueStore) lockDueSpread(ctx context.Context, suppliers []string, worker int64) (locked []string, err error) {
	shards, err := database.Column[int64](ctx, s.DB.SQL(ctx), `SELECT shard FROM webhook_shards WHERE worker = $1`,
		worker)
	if err != nil {
		return nil, fmt.Errorf("read a worker's shards: %w", err)
	}
	err = s.EachSupplier(suppliers, func(suppliers []string) error {
		one, err := database.Column[string](ctx, s.DB.SQL(ctx), `SELECT supplier_id FROM webhook_receivers
			WHERE supplier_id = $1 AND paused_by = '' AND shard = ANY($2) FOR NO KEY UPDATE SKIP LOCKED`,
			suppliers[0], shards)
		locked = append(locked, one...)
		return err
	})
	return locked, errs.Doing("lock receivers", err)
}

// EachSupplier is database.BySupplier for suppliers.
func (s *Tables) EachSupplier(suppliers []string, fn func(suppliers []string) error) error {
	return database.BySupplier(s.DB, suppliers, func(id string) string { return id }, fn)
}

// lockSpread is lockByID supplier by supplier, whose deliveries they are being read before. Suppliers are locked in the
// order of their ids, so the order of locks is the same as on one server.
func (s *store) lockSpread(ctx context.Context, ids []string) (locked []Delivery, err error) {
	type place struct{ supplierID, id string }
	places, err := database.Query(ctx, s.DB.SQL(ctx), `SELECT supplier_id, id FROM webhook_deliveries WHERE id = ANY($1)`,
		[]any{ids}, func(p *place) []any { return []any{&p.supplierID, &p.id} })
	if err != nil {
		return nil, fmt.Errorf("read whose webhook deliveries they are: %w", err)
	}
	err = database.BySupplier(s.DB, places, func(p place) string { return p.supplierID }, func(places []place) error {
		its := lists.Of(places, func(p place) string { return p.id })
		some, err := s.lockOf(ctx, []string{places[0].supplierID}, its)
		locked = append(locked, some...)
		return err
	})
	return locked, err
}

// waitingSpread is waiting supplier by supplier.
func (s *store) waitingSpread(ctx context.Context, suppliers []string, most int) (rows []Waiting, err error) {
	for _, id := range suppliers {
		row, filter := Waiting{supplierID: id}, Filter{Receiver: id, Status: Pending}
		if row.N, err = s.count(ctx, filter, most); err != nil {
			return nil, err
		}
		_, err = database.One(ctx, s.DB.ReaderSQL(ctx), s.oldest(`$1`), []any{id}, scanTime{&row.Oldest})
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// holdersSpread and waitedForSpread take all rows where one server steps through an index: such a query cannot be sent
// to several.
const (
	holdersSpread = `SELECT DISTINCT worker FROM webhook_deliveries WHERE worker IS NOT NULL`

	waitedForSpread = `SELECT DISTINCT destination FROM webhook_deliveries
		WHERE status = 'pending' AND worker IS NULL AND destination <> 'own'`
)
