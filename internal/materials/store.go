package materials

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/pack"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// All batches lock requests in one order, that of (supplier_id, id): two of them wait for each other and never both.
// On PostgreSQL a batch is arrays, so a statement has one plan for every size, and each row is looked up by its key.
// On SQLite it is one JSON text.

// requestKey names one request: ids are the supplier's own.
type requestKey struct {
	SupplierID string
	ID         int64
}

// compare orders requests as all batches lock them.
func (k requestKey) compare(other requestKey) int {
	return cmp.Or(cmp.Compare(k.SupplierID, other.SupplierID), cmp.Compare(k.ID, other.ID))
}

// store is the tables of requests and rounds. Times are Unix microseconds.
type store struct {
	db     *database.DB
	events Outbox // where the estimates of own events are
}

// requestRow is what is read of a stored request; the schema says what each column means.
type requestRow struct {
	SupplierID         string
	ID                 int64
	Status             Status
	Round              int64
	Digest             []byte
	Body               []byte
	TraceID            string
	UID                int64
	SelectedEstimateID *string
	SelectedAt         *int64
	Failure            string
	CreatedAt          int64
	UpdatedAt          int64
	Estimates          *string // null until they are received, and when they are those of an event
	Unavailable        *string
	Event              []byte // that has them; null: the row has, or nothing
}

// record returns the request with its estimates, which are the event's when the row has none.
func (r requestRow) record() (Record, error) {
	request, err := DecodeRequest(r.Body)
	if err != nil {
		return Record{}, fmt.Errorf("decode request %d: %w", r.ID, err)
	}
	request.SupplierID, request.ID, request.TraceID = r.SupplierID, r.ID, r.TraceID
	record := Record{
		Request: request, Status: r.Status, Round: r.Round, UID: r.UID,
		CreatedAt: instant(r.CreatedAt), UpdatedAt: instant(r.UpdatedAt),
		Estimates: []webhook.Estimate{}, Unavailable: []webhook.Unavailable{},
		SelectedEstimateID: r.SelectedEstimateID, SelectedAt: database.TimeOrNil(r.SelectedAt),
		Failure: r.Status.WhyFailed(r.Failure),
	}
	if r.Event != nil {
		event, err := unpacked[webhook.Event](r.Event)
		if err != nil {
			return Record{}, fmt.Errorf("decode event of request %d: %w", r.ID, err)
		}
		record.Estimates, record.Unavailable = OrEmpty(event.Data.Estimates), OrEmpty(event.Data.Unavailable)
	}
	if r.Estimates == nil || r.Unavailable == nil || r.Status == Enqueued || r.Status == Failed {
		return record, nil
	}
	err = errors.Join(json.Unmarshal([]byte(*r.Estimates), &record.Estimates),
		json.Unmarshal([]byte(*r.Unavailable), &record.Unavailable))
	if err != nil {
		return Record{}, fmt.Errorf("decode estimates of request %d: %w", r.ID, err)
	}
	return record, nil
}

// instant returns a stored time.
func instant(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// anySize reports whether a record of any size fits: where one is read at a time it does.
func anySize(int64) bool { return true }

// find reads one request of the supplier; errs.NotFound when the supplier has no such request. It gives up, with the
// zero Record, when so many bytes of its text do not fit into the memory.
func (s *store) find(ctx context.Context, supplierID string, id int64, fits func(int64) bool) (Record, error) {
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT `+columns(s.events.BodyOfOne, `r.supplier_id`)+`
		FROM material_requests r WHERE supplier_id = $1 AND id = $2`, []any{supplierID, id}, (*requestRow).places)
	if err != nil {
		return Record{}, fmt.Errorf("read material request: %w", err)
	}
	if len(rows) == 0 {
		return Record{}, unknownRequest()
	}
	if !fits(rows[0].length()) {
		return Record{}, nil
	}
	return rows[0].record()
}

// length returns how many bytes the texts of a record have.
func (r requestRow) length() int64 {
	n := pack.Len(r.Body) + pack.Len(r.Event)
	for _, text := range []*string{r.Estimates, r.Unavailable} {
		if text != nil {
			n += len(*text)
		}
	}
	return int64(n)
}

// columns returns what a record has of a request r and of the event that has its estimates: those of the round before,
// if any, are not on offer while fresh ones are made, nor when these have failed.
func columns(bodyOf func(supplier, uid, number string) string, supplier string) string {
	return `r.supplier_id, r.id, status, round, r.uid, trace_id, failure, created_at,
		updated_at, selected_estimate_id, selected_at, body, estimates, unavailable,
		CASE WHEN estimates IS NULL AND received > 0 AND status IN ('estimated', 'selected') THEN ` +
		bodyOf(supplier, `r.uid`, `r.received`) + ` END`
}

// places returns where database.Scan reads the columns to.
func (r *requestRow) places() []any {
	return []any{&r.SupplierID, &r.ID, &r.Status, &r.Round, &r.UID, &r.TraceID, &r.Failure, &r.CreatedAt, &r.UpdatedAt,
		&r.SelectedEstimateID, &r.SelectedAt, &r.Body, &r.Estimates, &r.Unavailable, &r.Event}
}

// round reads the round that a request is in, and its status; errs.NotFound when the supplier has no such request. By
// the time it is used the request may be in the next one: who changes something names the round again in the statement.
func (s *store) round(ctx context.Context, key requestKey) (r round.Round, status Status, err error) {
	r = round.Round{SupplierID: key.SupplierID, RequestID: key.ID}
	found, err := database.One(ctx, s.db.ReaderSQL(ctx), `SELECT uid, round, status FROM material_requests
		WHERE supplier_id = $1 AND id = $2`, []any{key.SupplierID, key.ID}, &r.UID, &r.Number, &status)
	if err == nil && !found {
		return r, "", unknownRequest()
	}
	return r, status, errs.Doing("read a request's round", err)
}

// unknownRequest answers an id of which the supplier has no request, also when another supplier has one.
func unknownRequest() error { return errs.New(errs.NotFound, "There is no such material request.") }

// lock holds the request until the transaction ends; SQLite's transactions already exclude each other. A statement
// after it in the transaction reads the row as the transaction before left it.
func (s *store) lock(ctx context.Context, key requestKey) error {
	if s.db.Engine() != database.Postgres {
		return nil
	}
	_, err := database.Exec(ctx, s.db.SQL(ctx), `SELECT id FROM material_requests WHERE supplier_id = $1 AND id = $2
		FOR UPDATE`, key.SupplierID, key.ID)
	return errs.Doing("lock material request", err)
}

// queryRequests is queryRounds for requests in any round.
func queryRequests[T any](ctx context.Context, s *store, pool database.Pool, keys []requestKey, columns string,
	lock bool, statement string, places func(*T) []any) (rows []T, err error) {
	rounds := lists.Of(keys, func(k requestKey) round.Round {
		return round.Round{SupplierID: k.SupplierID, RequestID: k.ID}
	})
	return queryRounds(ctx, s.db, pool, rounds, columns, lock, statement, places)
}

// place returns where database.Query reads a key to.
func (k *requestKey) place() []any { return []any{&k.SupplierID, &k.ID} }
