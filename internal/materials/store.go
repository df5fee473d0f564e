package materials

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Record is a material request as it stands: what was asked and what became of it.
type Record struct {
	Request
	Status             Status                `json:"status"`
	Round              int64                 `json:"-"` // which estimation this is, from 1
	CreatedAt          time.Time             `json:"created_at"`
	UpdatedAt          time.Time             `json:"updated_at"`
	Estimates          []webhook.Estimate    `json:"estimates"`   // never nil
	Unavailable        []webhook.Unavailable `json:"unavailable"` // never nil
	SelectedEstimateID *string               `json:"selected_estimate_id"`
	SelectedAt         *time.Time            `json:"-"`
}

// requestKey names one request: ids are the supplier's own.
type requestKey struct {
	SupplierID string
	ID         int64
}

type store struct{ db *database.DB }

type requestRow struct {
	SupplierID         string `gorm:"primaryKey"`
	ID                 int64  `gorm:"primaryKey;autoIncrement:false"`
	Status             Status
	Round              int64
	Digest             []byte
	ShopCode           string
	Body               string
	TraceID            string
	DispatchedAt       *int64
	SweepAt            int64
	SelectedEstimateID *string
	SelectedAt         *int64
	Failure            string
	CreatedAt          int64 `gorm:"autoCreateTime:false"`
	UpdatedAt          int64 `gorm:"autoUpdateTime:false"`
}

// TableName is gorm's name for the rows.
func (requestRow) TableName() string { return "material_requests" }

// recordRow is a request with its stored estimates; those are null until they are received.
type recordRow struct {
	Row         requestRow `gorm:"embedded"`
	Estimates   *string
	Unavailable *string
}

// request decodes the canonical body and adds what stands beside it.
func (r requestRow) request() (Request, error) {
	var request Request
	if err := json.Unmarshal([]byte(r.Body), &request); err != nil {
		return Request{}, fmt.Errorf("decode request %d: %w", r.ID, err)
	}
	request.SupplierID, request.ID, request.TraceID = r.SupplierID, r.ID, r.TraceID
	return request, nil
}

func (r recordRow) record() (Record, error) {
	request, err := r.Row.request()
	if err != nil {
		return Record{}, err
	}
	record := Record{
		Request: request, Status: r.Row.Status, Round: r.Row.Round,
		CreatedAt: instant(r.Row.CreatedAt), UpdatedAt: instant(r.Row.UpdatedAt),
		Estimates: []webhook.Estimate{}, Unavailable: []webhook.Unavailable{},
		SelectedEstimateID: r.Row.SelectedEstimateID,
	}
	if r.Row.SelectedAt != nil {
		at := instant(*r.Row.SelectedAt)
		record.SelectedAt = &at
	}
	// Those of the round before, if any, are not on offer while fresh ones are made.
	if r.Estimates == nil || r.Unavailable == nil || record.Status == Enqueued {
		return record, nil
	}
	if err := json.Unmarshal([]byte(*r.Estimates), &record.Estimates); err != nil {
		return Record{}, fmt.Errorf("decode estimates of request %d: %w", r.Row.ID, err)
	}
	if err := json.Unmarshal([]byte(*r.Unavailable), &record.Unavailable); err != nil {
		return Record{}, fmt.Errorf("decode unavailable services of request %d: %w", r.Row.ID, err)
	}
	return record, nil
}

func instant(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// withEstimates reads rows of the subquery r, at most one page, together with their estimates.
const withEstimates = ` AS r LEFT JOIN material_request_estimates e ON e.supplier_id = r.supplier_id AND e.request_id = r.id`

// find reads one request of the supplier; errs.NotFound when the supplier has no such request.
func (s *store) find(ctx context.Context, supplierID string, id int64) (Record, error) {
	var row recordRow
	err := s.db.Reader(ctx).Raw(`SELECT r.*, e.estimates, e.unavailable FROM material_requests`+withEstimates+
		` WHERE r.supplier_id = ? AND r.id = ?`, supplierID, id).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Record{}, unknownRequest()
	}
	if err != nil {
		return Record{}, fmt.Errorf("read material request: %w", err)
	}
	return row.record()
}

func unknownRequest() error { return errs.New(errs.NotFound, "There is no such material request.") }

// list chooses one page of the supplier's requests, newest first; a nil status means any.
func (s *store) list(ctx context.Context, supplierID string, status *Status, page httpapi.Page) (listing, error) {
	where, args := `WHERE supplier_id = ?`, []any{supplierID}
	if status != nil {
		where, args = where+` AND status = ?`, append(args, *status)
	}
	return s.page(ctx, where, args, `created_at DESC, supplier_id, id DESC`, page)
}

// orders chooses one page of all suppliers' requests with a selected estimate, latest selection first.
func (s *store) orders(ctx context.Context, page httpapi.Page) (listing, error) {
	return s.page(ctx, `WHERE selected_at IS NOT NULL`, nil, `selected_at DESC, supplier_id, id`, page)
}

// listing is one page before its records are read: a page of the largest requests has 200 MiB.
type listing struct {
	store *store
	total int64 // over all pages
	rows  []listed
}

// listed is a row of the page and how many bytes it has.
type listed struct {
	SupplierID string
	ID         int64
	Size       int64
}

func (s *store) page(ctx context.Context, where string, args []any, order string, page httpapi.Page) (listing, error) {
	l := listing{store: s}
	if err := s.db.Reader(ctx).Raw(`SELECT count(*) FROM material_requests `+where, args...).Scan(&l.total).Error; err != nil {
		return l, fmt.Errorf("count material requests: %w", err)
	}
	if page.Offset() >= l.total {
		return l, nil
	}
	err := s.db.Reader(ctx).Raw(`SELECT r.supplier_id AS supplier_id, r.id AS id, octet_length(r.body) + coalesce(octet_length(e.estimates) + octet_length(e.unavailable), 0) AS size
		FROM (SELECT * FROM material_requests `+where+` ORDER BY `+order+` LIMIT ? OFFSET ?)`+withEstimates+` ORDER BY `+order,
		append(args, page.Size, page.Offset())...).Scan(&l.rows).Error
	if err != nil {
		return l, fmt.Errorf("choose material requests: %w", err)
	}
	return l, nil
}

// records reads the page in parts of about a mebibyte, each when it is asked for.
func (l listing) records(ctx context.Context) iter.Seq2[[]Record, error] {
	const part = 1 << 20
	return func(yield func([]Record, error) bool) {
		for rest := l.rows; len(rest) > 0; {
			n, size := 1, rest[0].Size
			for n < len(rest) && size+rest[n].Size <= part {
				size += rest[n].Size
				n++
			}
			records, err := l.store.read(ctx, rest[:n])
			if !yield(records, err) || err != nil {
				return
			}
			rest = rest[n:]
		}
	}
}

// read reads the rows in their order, as they stand now; those that are gone meanwhile are left out.
func (s *store) read(ctx context.Context, wanted []listed) ([]Record, error) {
	keys := make([]any, 0, 2*len(wanted))
	for _, w := range wanted {
		keys = append(keys, w.SupplierID, w.ID)
	}
	const place = `, (?, CAST(? AS bigint))`
	var rows []recordRow
	err := s.db.Reader(ctx).Raw(`SELECT r.*, e.estimates, e.unavailable FROM material_requests`+withEstimates+
		` WHERE (r.supplier_id, r.id) IN (VALUES `+strings.Repeat(place, len(wanted))[2:]+`)`, keys...).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read material requests: %w", err)
	}
	found := make(map[requestKey]recordRow, len(rows))
	for _, row := range rows {
		found[requestKey{row.Row.SupplierID, row.Row.ID}] = row
	}
	records := make([]Record, 0, len(rows))
	for _, w := range wanted {
		row, ok := found[requestKey{w.SupplierID, w.ID}]
		if !ok {
			continue
		}
		record, err := row.record()
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
	return records, nil
}

// lock holds the request until the transaction ends; SQLite's transactions already exclude each other.
func (s *store) lock(ctx context.Context, key requestKey) error {
	if s.db.Engine() != database.Postgres {
		return nil
	}
	var id int64
	err := s.db.From(ctx).Raw(`SELECT id FROM material_requests WHERE supplier_id = ? AND id = ? FOR UPDATE`,
		key.SupplierID, key.ID).Scan(&id).Error
	if err != nil {
		return fmt.Errorf("lock material request: %w", err)
	}
	return nil
}

// batchParam is one element of the JSON array that hands a whole batch to a statement as its one parameter, so
// that a batch of any size is the same prepared statement.
type batchParam struct {
	SupplierID  string `json:"supplier_id"`
	ID          int64  `json:"id"`
	Round       int64  `json:"round"`
	WebhookID   string `json:"webhook_id"`
	EventAt     int64  `json:"event_at"`
	Estimates   string `json:"estimates"`
	Unavailable string `json:"unavailable"`
}

// batch is a table k over one parameter that batchJSON made.
func (s *store) batch() string {
	if s.db.Engine() == database.Postgres {
		return `json_to_recordset(?::json) AS k(supplier_id text, id bigint, round bigint, webhook_id text,
			event_at bigint, estimates text, unavailable text)`
	}
	return `(SELECT value->>'supplier_id' AS supplier_id, value->>'id' AS id, value->>'round' AS round,
		value->>'webhook_id' AS webhook_id, value->>'event_at' AS event_at, value->>'estimates' AS estimates,
		value->>'unavailable' AS unavailable FROM json_each(?)) AS k`
}

func batchJSON(params []batchParam) (string, error) {
	slices.SortStableFunc(params, func(a, b batchParam) int {
		return cmp.Or(cmp.Compare(a.SupplierID, b.SupplierID), cmp.Compare(a.ID, b.ID))
	})
	text, err := json.Marshal(params)
	if err != nil {
		return "", fmt.Errorf("encode batch: %w", err)
	}
	return string(text), nil
}

// requests is the batch with the material_requests r that it names; others are left out. On PostgreSQL each is looked up
// by its key (OFFSET 0 keeps the planner from anything else, whatever it believes of the tables), and with lock it is
// held until the transaction ends: batchJSON's order is the one in which all batches lock.
func (s *store) requests(lock bool) string {
	if s.db.Engine() != database.Postgres {
		return s.batch() + ` JOIN material_requests r ON r.supplier_id = k.supplier_id AND r.id = k.id`
	}
	forUpdate := ``
	if lock {
		forUpdate = ` FOR UPDATE`
	}
	return s.batch() + ` CROSS JOIN LATERAL (SELECT * FROM material_requests m
		WHERE m.supplier_id = k.supplier_id AND m.id = k.id OFFSET 0` + forUpdate + `) r`
}
