package deliveries

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// Catching up. When a receiver is resumed, or succeeds again after failures, everything that waits for it is due,
// whatever its schedule says. This changes no delivery, so it costs the same however many wait. Instead the receiver's
// row says up to which uid to catch up. Each claim takes the next deliveries in the order of acceptance and notes in
// that row how far it came. A delivery that fails again is behind that place and waits by its schedule. A claim passes
// over a delivery that another transaction has locked: a redelivery makes it due itself.

// CatchUp makes everything due that waits for the suppliers' receivers. It joins the transaction of ctx, if there is
// one. When it is called again, it begins at the front and includes what failed meanwhile.
func (s *DueStore) CatchUp(ctx context.Context, suppliers []string, now time.Time) error {
	return s.EachSupplier(suppliers, func(suppliers []string) error {
		_, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE webhook_receivers SET catch_up_uid = 0, catch_up_round = 0,
				catch_up_to = (SELECT d.uid FROM webhook_deliveries d WHERE d.destination = webhook_receivers.supplier_id
					AND d.destination <> 'own' AND d.status = 'pending' AND d.worker IS NULL`+
			s.DB.Of(suppliers, `d.supplier_id`, `$1`)+` ORDER BY d.uid DESC LIMIT 1),
				due_at = CASE WHEN due_at <= $2 THEN due_at ELSE $2 END
			WHERE `+s.DB.AnyOf("supplier_id", 1)+s.DB.Of(suppliers, `supplier_id`, `$1`),
			s.DB.Values(suppliers), now.UnixMicro())
		return errs.Doing("make the deliveries that wait for receivers due", err)
	})
}

// ClaimCatchingUp is Claim for receivers that catch up. If it finds fewer deliveries than wanted, the receiver has
// caught up.
func (s *AttemptStore) ClaimCatchingUp(ctx context.Context, wants map[string]int, now time.Time, worker,
	attempts int64) (claimed []Claimed, err error) {
	err = s.EachSupplier(slices.Sorted(maps.Keys(wants)), func(suppliers []string) error {
		counts := lists.Of(suppliers, func(id string) int64 { return int64(wants[id]) })
		var some []Claimed
		var err error
		if s.Postgres() {
			some, err = s.claimOf(ctx, s.acceptedFirst(suppliers), suppliers, suppliers, counts, now, worker, attempts)
		} else {
			some, err = s.catchUpSQLite(ctx, suppliers, counts, now, worker, attempts)
		}
		claimed = append(claimed, some...)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(claimed, func(a, b Claimed) int {
		return cmp.Or(cmp.Compare(a.Round.UID, b.Round.UID), cmp.Compare(a.Round.Number, b.Round.Number))
	})
	return claimed, s.caughtUp(ctx, wants, claimed)
}

// caughtUp stores how far receivers have caught up.
func (s *AttemptStore) caughtUp(ctx context.Context, wants map[string]int, claimed []Claimed) error {
	last, found := map[string]Claimed{}, map[string]int{}
	for _, c := range claimed {
		last[c.Destination] = c
		found[c.Destination]++
	}
	for _, id := range slices.Sorted(maps.Keys(wants)) {
		to := `catch_up_to`
		if found[id] < wants[id] {
			to = `NULL`
		}
		_, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE webhook_receivers SET catch_up_uid = $2, catch_up_round = $3,
			catch_up_to = `+to+` WHERE supplier_id = $1`, id, last[id].Round.UID, last[id].Round.Number)
		if err != nil {
			return fmt.Errorf("store how far a receiver has caught up: %w", err)
		}
	}
	return nil
}

// acceptedFirst selects the next deliveries for claimOf, in the order of acceptance, for receivers that catch up.
func (s *AttemptStore) acceptedFirst(suppliers []string) string {
	return `
		JOIN webhook_receivers r ON r.supplier_id = wanted.destination` + s.DB.Of(suppliers, `r.supplier_id`, `$6`) + `
			CROSS JOIN LATERAL (
				SELECT * FROM webhook_deliveries
				WHERE destination = wanted.destination AND destination <> 'own' AND status = 'pending' AND worker IS NULL
					AND (uid, round) > (r.catch_up_uid, r.catch_up_round) AND uid <= r.catch_up_to` +
		s.DB.Of(suppliers, `supplier_id`, `$6`) + `
				ORDER BY uid, round LIMIT wanted.n FOR UPDATE SKIP LOCKED) d`
}

// catchUpSQLite reads the place first: as a parameter, SQLite finds it in the index.
func (s *AttemptStore) catchUpSQLite(ctx context.Context, suppliers []string, counts []int64, now time.Time, worker,
	attempts int64) (claimed []Claimed, err error) {
	for i, id := range suppliers {
		var place [3]int64
		known, err := database.One(ctx, s.DB.SQL(ctx), `SELECT catch_up_uid, catch_up_round, coalesce(catch_up_to, 0)
			FROM webhook_receivers WHERE supplier_id = $1`, []any{id}, &place[0], &place[1], &place[2])
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		some, err := s.claimFirst(ctx, now, worker, attempts,
			`destination <> 'own' AND (uid, round) > ($2, $3) AND uid <= $4 ORDER BY uid, round LIMIT $5`,
			id, place[0], place[1], place[2], counts[i])
		if err != nil {
			return nil, err
		}
		claimed = append(claimed, some...)
	}
	return claimed, nil
}
