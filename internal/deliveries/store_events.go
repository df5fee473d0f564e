package deliveries

import (
	"context"
	"slices"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Events. An event is stored once, with its deliveries (a, b), and never changed; retention deletes all of them
// together. Its row has the time and a random nonce from which both webhook-ids follow, so deliveries are found through
// events by their primary key, and no id needs to be stored twice. It keeps the estimates of a request too: package
// materials reads them from here.

// BodyOf returns the SQL expression of the body of a round's event, so that requests are read with theirs by one
// statement.
func (d *Keeper) BodyOf(supplier, uid, number string) string {
	return `(SELECT e.body FROM webhook_events e WHERE e.uid = ` + uid + ` AND e.round = ` + number +
		` AND e.supplier_id = ` + supplier + `)`
}

// BodyOfOne is BodyOf for a statement that reads one request: it costs nothing where it is not evaluated, however many
// partitions the events have.
func (d *Keeper) BodyOfOne(supplier, uid, number string) string {
	if d.deps.DB.Engine() != database.Postgres || d.deps.DB.Spread() {
		return d.BodyOf(supplier, uid, number)
	}
	return `webhook_event_body(` + uid + `, ` + number + `)`
}

// storedEvent is what an event's row says of its round and its webhook-ids.
type storedEvent struct {
	round.Event
	number     int64 // of the round
	supplierID string
}

// storedEvents reads events from what is said. It joins the transaction of ctx.
func (s *store) storedEvents(ctx context.Context, from string, args ...any) ([]storedEvent, error) {
	return database.Query(ctx, s.DB.ReaderSQL(ctx), `SELECT uid, round, nonce, created_at, coalesce(supplier_id, '')
		FROM `+from, args, func(e *storedEvent) []any { return []any{&e.UID, &e.number, &e.Nonce, &e.At, &e.supplierID} })
}

// eventsOf reads the events of the rounds, and no other round's of their requests. Most rounds have one of a few
// numbers, and there is a statement for each of these.
func (s *store) eventsOf(ctx context.Context, rounds []round.Round) (events []storedEvent, err error) {
	uids := map[int64][]int64{}
	for _, r := range rounds {
		uids[r.Number] = append(uids[r.Number], r.UID)
	}
	for number, of := range uids {
		some, err := s.storedEvents(ctx, `webhook_events WHERE round = $1 AND `+s.DB.AnyOf("uid", 2), number,
			s.DB.Values(of))
		if err != nil {
			return nil, err
		}
		events = append(events, some...)
	}
	return events, nil
}

// idsOfEvents returns the ids of both deliveries of each event; of one that went to no receiver the second is of
// nothing.
func idsOfEvents(events []storedEvent) []string {
	ids := make([]string, 0, 2*len(events))
	for _, e := range events {
		ids = append(ids, e.WebhookID(round.OwnEndpoint), e.WebhookID(round.Receiver))
	}
	return ids
}

func uidsOf(rounds []round.Round) []int64 {
	return lists.Of(rounds, func(r round.Round) int64 { return r.UID })
}

// RoundOf returns the numbers of the round whose delivery has the webhook-id, and whether it goes to the own endpoint.
// Without such a delivery the numbers are 0. The own endpoint asks when a call has no worker's proof: does it bring one
// of the service's own events, and for which round?
func (d *Keeper) RoundOf(ctx context.Context, webhookID string) (uid, number int64, own bool, err error) {
	if !round.IsWebhookID(webhookID) {
		return 0, 0, false, nil
	}
	var destination string
	found, err := database.One(ctx, d.deps.DB.ReaderSQL(ctx), `SELECT uid, round, destination FROM webhook_deliveries
		WHERE id = $1`, []any{webhookID}, &uid, &number, &destination)
	return uid, number, found && destination == OwnEndpoint, errs.Doing("look for the webhook delivery", err)
}

// Stored returns those of the rounds whose events are stored.
func (d *Keeper) Stored(ctx context.Context, rounds []round.Round) ([]round.Round, error) {
	events, err := d.store.eventsOf(ctx, rounds)
	known := database.Set(lists.Of(events, storedEvent.round))
	return among(rounds, known), errs.Doing("look whether events are stored", err)
}

// among returns those of the rounds whose numbers are known.
func among(rounds []round.Round, known map[round.Round]bool) []round.Round {
	return slices.DeleteFunc(slices.Clone(rounds), func(r round.Round) bool {
		return !known[round.Round{UID: r.UID, Number: r.Number}]
	})
}

// traced bounds the search for an X-Request-ID, which has no index: the events of the newest requests.
const traced = 10_000

// Traced returns the ids of the deliveries to the own endpoint whose request came with the X-Request-ID, among the
// events of the newest requests.
func (d *Keeper) Traced(ctx context.Context, traceID string) ([]string, error) {
	events, err := d.store.storedEvents(ctx, `(SELECT uid, round, nonce, created_at, supplier_id, trace_id
		FROM webhook_events ORDER BY uid DESC, round DESC LIMIT $1) AS newest WHERE trace_id = $2 LIMIT 20`, traced, traceID)
	ids := lists.Of(events, func(e storedEvent) string { return e.WebhookID(round.OwnEndpoint) })
	return ids, errs.Doing("look for the request id", err)
}
