package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/supplyhub/supplyhub/internal/pack"
)

const (
	listChunk = 50_000
	listStep  = time.Second // between two requests
)

// fillLists stores what one supplier's requests leave, each of ten days in a partition of its own, with the bodies and
// estimates that requests have.
func (s *stack) fillLists(ctx context.Context, supplier string, stored int64) error {
	conn, err := pgx.Connect(ctx, s.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	today := time.Now().Unix() * 1_000_000 / microsOfDay
	chunk := listRows{supplier: supplier, begin: time.Now().Add(-time.Duration(stored) * listStep)}
	for day := range int64(sizeDays + 1) {
		if err := advance(ctx, conn, today+day); err != nil {
			return err
		}
		if day == 0 { // the first partition is of what was before
			continue
		}
		if err := conn.QueryRow(ctx, `SELECT max(first_uid) FROM webhook_partitions WHERE opened_at IS NOT NULL`).
			Scan(&chunk.first); err != nil {
			return err
		}
		for from := (day-1)*stored/sizeDays + 1; from <= day*stored/sizeDays; from += listChunk {
			chunk.from, chunk.to = from, min(from+listChunk-1, day*stored/sizeDays)
			if err := chunk.store(ctx, conn); err != nil {
				return err
			}
		}
	}
	if err := advance(ctx, conn, today+sizeDays+1); err != nil {
		return err
	}
	return s.tidy(ctx)
}

// listRows are the rows of the requests from one number to another.
type listRows struct {
	supplier        string
	first, from, to int64 // first: the first uid of the partition
	begin           time.Time
}

func (r listRows) at(n int64) int64 { return r.begin.Add(time.Duration(n) * listStep).UnixMicro() }

// status returns a request's status: a tenth is selected, a hundredth failed, a hundredth waits for its next try.
func (r listRows) status(n int64) string {
	switch {
	case n%100 == 7:
		return "failed"
	case n%100 == 8:
		return "enqueued"
	case n%10 == 3:
		return "selected"
	}
	return "estimated"
}

func (r listRows) store(ctx context.Context, conn *pgx.Conn) error {
	return errors.Join(r.requests(ctx, conn), r.events(ctx, conn), r.deliveries(ctx, conn))
}

func (r listRows) requests(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"material_requests"}, []string{"supplier_id", "id", "status", "digest",
		"shop_code", "body", "trace_id", "uid", "received", "failure", "created_at", "updated_at", "selected_estimate_id",
		"selected_at", "retry_at"},
		pgx.CopyFromSlice(int(r.to-r.from+1), func(i int) ([]any, error) {
			n := r.from + int64(i)
			at, status, failure, received := r.at(n), r.status(n), "", int64(1)
			var estimate, selected, retry any
			switch status {
			case "failed":
				failure, received = "The delivery estimates were computed and could not be delivered.", 0
			case "enqueued":
				retry, received = nextYear(), 0
			case "selected":
				estimate, selected = "est-road", at
			}
			return []any{r.supplier, n, status, digestOf(n), "SP-0001", pack.Pack(body(n)), traceOf(n), r.first + n, received,
				failure, at, at, estimate, selected, retry}, nil
		}))
	return err
}

// events are those of all requests but the ones that wait.
func (r listRows) events(ctx context.Context, conn *pgx.Conn) error {
	n := r.from - 1
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"webhook_events"},
		[]string{"uid", "round", "nonce", "trace_id", "body", "created_at", "supplier_id"},
		pgx.CopyFromFunc(func() ([]any, error) {
			if n++; n <= r.to && r.status(n) == "enqueued" {
				n++
			}
			if n > r.to {
				return nil, nil
			}
			return []any{r.first + n, int64(1), r.first + n, traceOf(n), r.event(n), r.at(n), r.supplier}, nil
		}))
	return err
}

// event returns one as the worker stores it.
func (r listRows) event(n int64) []byte {
	at := time.UnixMicro(r.at(n)).UTC()
	day, later := at.Format(time.DateOnly), at.AddDate(0, 0, 7)
	text := fmt.Appendf(nil, `{"type":"material_request.estimated","timestamp":%q,"data":{"supplier_id":%q,`+
		`"request_id":%d,"shop_code":"SP-0001","estimates":[`, at.Format(time.RFC3339Nano), r.supplier, n)
	for i, service := range []string{"road", "express"} {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, `{"estimate_id":"est-%[1]s","service":%[1]q,"carrier":"Carrier of %[1]s",`+
			`"price_cents":%[2]d,"currency":"BRL","lead_time_days":5,"dispatch_date":%[3]q,"delivery_date":%[4]q,`+
			`"chargeable_weight_kg":12.5,"volume_m3":0.075,"valid_until":%[5]q}`,
			service, 10_000+n%5_000, day, later.Format(time.DateOnly), later.Format(time.RFC3339Nano))
	}
	return append(text, `],"unavailable":[{"service":"bulky","reason":"The items are too small for this service."}]}}`...)
}

// deliveries are two of each event, to the own endpoint and to the supplier's receiver.
func (r listRows) deliveries(ctx context.Context, conn *pgx.Conn) error {
	n, own := r.from-1, false
	due := nextYear()
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"webhook_deliveries"}, []string{"id", "uid", "round", "destination",
		"supplier_id", "request_id", "status", "attempts", "series", "next_attempt_at", "created_at", "updated_at",
		"last_started_at", "last_duration_us", "last_status", "last_error"},
		pgx.CopyFromFunc(func() ([]any, error) {
			if own = !own; own {
				if n++; n <= r.to && r.status(n) == "enqueued" {
					n++
				}
			}
			if n > r.to {
				return nil, nil
			}
			destination, status, answered, reason := r.supplier, "delivered", int64(200), ""
			switch {
			case own && r.status(n) == "failed", !own && n%50 == 0:
				status, answered, reason = "dead", 503, "answered 503"
			case !own && n%50 == 1:
				status, answered, reason = "failed", 400, "answered 400"
			case !own && n%50 == 2:
				status, answered, reason = "pending", 503, "answered 503"
			}
			if own {
				destination = "own"
			}
			at := r.at(n)
			return []any{deliveryID(r.first+n, at, own), r.first + n, int64(1), destination, r.supplier, n, status, int64(1),
				int64(1), due, at, at, at, int64(1000), answered, reason}, nil
		}))
	return err
}

// nextYear returns when what waits is due: not while the lists are read.
func nextYear() int64 { return time.Now().AddDate(1, 0, 0).UnixMicro() }
