package webhooks

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Events returns the stored events of the rounds, in their order; one of a round that has none is zero.
func (d *Dispatcher) Events(ctx context.Context, rounds []round.Round) ([]webhook.Event, error) {
	bodies, err := d.store.bodies(ctx, rounds, `e.body`)
	if err != nil {
		return nil, err
	}
	events := make([]webhook.Event, len(rounds))
	for i, r := range rounds {
		body, stored := bodies[eventKey{r.UID, r.Number}]
		if !stored {
			continue
		}
		if err := json.Unmarshal(body, &events[i]); err != nil {
			return nil, fmt.Errorf("decode event of %s: %w", r, err)
		}
	}
	return events, nil
}

// HaveEvents reports of each round whether its event is stored.
func (d *Dispatcher) HaveEvents(ctx context.Context, rounds []round.Round) ([]bool, error) {
	found, err := d.store.bodies(ctx, rounds, `NULL`)
	have := make([]bool, len(rounds))
	for i, r := range rounds {
		_, have[i] = found[eventKey{r.UID, r.Number}]
	}
	return have, err
}

type eventKey struct{ uid, number int64 }

// bodies returns what the column has in the events of the rounds that are stored.
func (s *store) bodies(ctx context.Context, rounds []round.Round, column string) (map[eventKey][]byte, error) {
	found := make(map[eventKey][]byte, len(rounds))
	err := database.BySupplier(s.db, rounds, func(r round.Round) string { return r.SupplierID },
		func(rounds []round.Round) error {
			rows, err := s.bodiesOf(ctx, rounds, column)
			for _, r := range rows {
				found[r.eventKey] = r.body
			}
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read webhook events: %w", err)
	}
	return found, nil
}

type bodyRow struct {
	eventKey
	body []byte
}

func (s *store) bodiesOf(ctx context.Context, rounds []round.Round, column string) ([]bodyRow, error) {
	if len(rounds) == 0 {
		return nil, nil
	}
	suppliers := make([]string, len(rounds))
	uids, numbers, pairs := make([]int64, len(rounds)), make([]int64, len(rounds)), make([][2]int64, len(rounds))
	for i, r := range rounds {
		suppliers[i], uids[i], numbers[i], pairs[i] = r.SupplierID, r.UID, r.Number, [2]int64{r.UID, r.Number}
	}
	args := []any{s.values(pairs)}
	of := s.db.Of(suppliers, `e.supplier_id`, `$3`)
	if s.postgres() {
		args = []any{uids, numbers}
	}
	if of != "" {
		args = append(args, s.values(suppliers))
	}
	return database.Query(ctx, s.db.ReaderSQL(ctx), s.asked(column)+of, args,
		func(r *bodyRow) []any { return []any{&r.uid, &r.number, &r.body} })
}

// asked selects the events of rounds: two arrays, or on SQLite one of pairs, as two would be walked through for each
// other.
func (s *store) asked(column string) string {
	rounds := `(SELECT value->>0 AS uid, value->>1 AS number FROM json_each($1)) AS k`
	if s.postgres() {
		rounds = `unnest($1::bigint[], $2::bigint[]) AS k(uid, number)`
	}
	return `SELECT e.uid, e.round, ` + column + `
		FROM ` + rounds + ` JOIN webhook_events e ON e.uid = k.uid AND e.round = k.number`
}
