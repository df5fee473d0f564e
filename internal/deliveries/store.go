package deliveries

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Tables is what all stores share, those of other packages too. Hot statements are written for each engine: PostgreSQL
// takes a batch as arrays in one statement and one round trip, SQLite has no round trips and one writer.
type Tables struct{ DB *database.DB }

type (
	// AttemptStore stores events and deliveries, begins attempts and ends them: arrows a to f. Package sending calls it.
	AttemptStore struct{ Tables }
	// DueStore keeps when something is due to each receiver. Every arrow that makes a delivery wait ends with it.
	DueStore struct{ Tables }
	// store reads, redelivers, verifies and deletes: arrows g and h. It is the Keeper's.
	store struct{ Tables }
)

// NewTables returns the tables of a database.
func NewTables(db *database.DB) Tables { return Tables{DB: db} }

// NewAttemptStore returns the attempts of a database.
func NewAttemptStore(db *database.DB) *AttemptStore { return &AttemptStore{Tables{db}} }

// NewDueStore returns when the receivers of a database are due.
func NewDueStore(db *database.DB) *DueStore { return &DueStore{Tables{db}} }

// Postgres reports whether the tables are PostgreSQL's.
func (s *Tables) Postgres() bool { return s.DB.Engine() == database.Postgres }

// Claimed is a delivery whose next attempt is begun, or which is dead because its series is used up.
type Claimed struct {
	Begun
	Dead bool
	last Result // of a dead one
}

// Reason returns why the last attempt of a dead one did not deliver.
func (c Claimed) Reason() string { return c.last.Reason() }

// places returns where database.Query reads a claimed row to.
func (c *Claimed) places() []any {
	return []any{&c.ID, &c.Destination, &c.Round.SupplierID, &c.Round.RequestID, &c.Round.UID, &c.Round.Number,
		&c.Number, &c.Series, &c.Dead, &c.last.status, &c.last.Err, &c.TraceID, &c.TraceParent, &c.Body}
}

// Claim begins the next attempt of as many due deliveries as are wanted of each destination, the longest due first; the
// attempt before becomes history. It must run in a transaction; two workers never claim the same one.
//
// It is arrow c, in the transaction "claim deliveries", behind LockDue for receivers. Deliveries that a redelivery or
// retention has locked are passed over and found by the next look. A COMMIT without an answer may have begun attempts
// that this worker does not send: it finds them by itself (f).
func (s *AttemptStore) Claim(ctx context.Context, wants map[string]int, now time.Time, worker, attempts int64) (
	[]Claimed, error) {
	if s.DB.Spread() {
		return s.claimSpread(ctx, wants, now, worker, attempts)
	}
	return database.Either(s.DB.Dialect, s.claimPostgres, s.claimSQLite)(ctx, wants, now, worker, attempts)
}

// InsertEvents stores the events of those rounds that have none and returns which, and how the suppliers' receivers
// are. It joins the transaction of ctx, so that a receiver paused before it gets nothing.
//
// It is the first statement of a and b. The key of an event is its round: when two workers estimated the same one, the
// second waits here for the COMMIT of the first and then stores nothing. An event that is there has its deliveries, as
// both come from one transaction.
func (s *AttemptStore) InsertEvents(ctx context.Context, events []DraftEvent, suppliers []string,
	now time.Time) (map[round.Round]bool, map[string]Standing, error) {
	if s.Postgres() {
		return s.insertEventsPostgres(ctx, events, suppliers, now)
	}
	fresh, err := s.insertEventsSQLite(ctx, events, now)
	if err != nil {
		return nil, nil, err
	}
	known, err := (&DueStore{s.Tables}).standings(ctx, suppliers)
	return fresh, known, err
}

// InsertDeliveries stores deliveries, with the attempts that are begun with them. It joins the transaction of ctx.
//
// It is the second statement of a and b. A row with a worker is b: it is in no index of what is due, and its worker
// alone knows of it until e or f. A row without one is a, and MarkDue follows in the same transaction.
func (s *AttemptStore) InsertDeliveries(ctx context.Context, deliveries []DraftDelivery, now time.Time) error {
	return database.Either(s.DB.Dialect, s.insertDeliveriesPostgres, s.insertDeliveriesSQLite)(ctx, deliveries, now)
}

// PutBack makes first attempts that were begun and not sent undone: their deliveries are due now. Each is named by its
// worker and by when it began. It must run in a transaction.
//
// It is arrow d. The worker repeats it until the database answers; a repetition after a COMMIT without an answer finds
// no row, or an attempt that began at another moment. An attempt that a crash leaves behind is for f, and counts.
func (s *AttemptStore) PutBack(ctx context.Context, attempts []Begun, now time.Time) error {
	type beginning struct{ worker, at int64 }
	byBegin, due := map[beginning][]string{}, []string{}
	for _, j := range attempts {
		key := beginning{j.Worker, j.At.UnixMicro()}
		byBegin[key] = append(byBegin[key], j.ID)
	}
	for key, ids := range byBegin {
		destinations, err := database.Column[string](ctx, s.DB.SQL(ctx),
			// worker + 0 keeps the planner from the index of all that the worker attempts: the ids are few
			`UPDATE webhook_deliveries SET attempts = 0, series = 0, worker = NULL,
				next_attempt_at = $1, updated_at = $1, last_started_at = NULL
			WHERE worker + 0 = $2 AND attempts = 1 AND last_started_at = $3 AND `+s.DB.AnyOf("id", 4)+` RETURNING destination`,
			now.UnixMicro(), key.worker, key.at, s.DB.Values(ids))
		if err != nil {
			return fmt.Errorf("give webhook attempts back: %w", err)
		}
		due = append(due, destinations...)
	}
	return (&DueStore{s.Tables}).DueNow(ctx, due, now)
}

// Finish writes down the ends of those attempts that are still this worker's, with what they mean to their deliveries,
// and returns the ids of these.
//
// It is arrow e. A result is left out when its attempt was taken over (f), or when it was written before by a COMMIT
// without an answer: nothing that follows from it is stored a second time.
func (s *AttemptStore) Finish(ctx context.Context, results []Result, now time.Time) (map[string]bool, error) {
	if !s.Postgres() {
		return s.finishSQLite(ctx, results, now)
	}
	written := make(map[string]bool, len(results))
	supplier := func(r Result) string { return r.Round.SupplierID }
	err := database.BySupplier(s.DB, results, supplier, func(results []Result) error {
		some, err := s.finishPostgres(ctx, results, now)
		maps.Copy(written, some)
		return err
	})
	return written, err
}

// written runs a statement that returns the ids of what it wrote.
func (s *AttemptStore) written(ctx context.Context, statement string, args ...any) (map[string]bool, error) {
	ids, err := database.Column[string](ctx, s.DB.SQL(ctx), statement, args...)
	return database.Set(ids), errs.Doing("write webhook attempts down", err)
}

// DraftDelivery is a delivery that is to be stored. With IsBegun its first attempt is begun with it (b), under the
// lease that Worker names, and its attempt number is 1 from the start; without, it waits and has had no attempt (a).
type DraftDelivery struct {
	Begun
	IsBegun bool
}

// first returns what a row says of the attempt that begins with it: the number of attempts, the lease, and the
// beginning, which PutBack (d) looks for. A delivery that waits has none of these.
func (d DraftDelivery) first(now time.Time) (attempts int64, worker, startedAt *int64) {
	if !d.IsBegun {
		return 0, nil, nil
	}
	return 1, &d.Worker, new(now.UnixMicro())
}

// DraftEvent is an event that is to be stored.
type DraftEvent struct {
	round.Outgoing
	Ids    round.Event // what its webhook-ids follow from
	Stored []byte      // its body, as it is stored
}
