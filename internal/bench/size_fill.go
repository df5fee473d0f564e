package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/pack"
	"github.com/supplyhub/supplyhub/internal/round"
)

const (
	microsOfDay = 24 * 60 * 60 * 1_000_000
	fillBatch   = 50_000

	otherSuppliers = 10_000
)

// filling are the requests of some numbers: a tenth of them belong to the supplier whose lists are read, the others
// of 10,000. Of those a tenth
// is selected, a hundredth failed and a hundredth waits; half of the deliveries go to the own endpoint.
type filling struct {
	supplier string
	first    int64 // uid before that of number 0
	from, to int64
	pending  int64 // from this number on some deliveries are: a partition with one of these is not dropped
}

// fill stores ten days of requests, each day in a partition of its own, and returns the API key of the supplier that
// has a tenth of them.
func (s *stack) fill(ctx context.Context, stored int64) (key string, err error) {
	supplier, key, err := s.create(ctx, "http://127.0.0.1:9/hook", "--scopes", listScopes)
	if err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, s.database())
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `INSERT INTO suppliers (id, name, webhook_url, access_ttl, refresh_ttl, scopes,
			created_at, updated_at)
		SELECT 'sup_zz_' || n, 'Supplier ' || n, 'http://127.0.0.1:9/' || n, 900, 2592000, 'orders:read', 0, 0
		FROM generate_series(0, $1) AS n`,
		otherSuppliers-1); err != nil {
		return "", err
	}
	today := time.Now().Unix() * 1_000_000 / microsOfDay
	rows := filling{supplier: supplier, pending: stored - stored/sizeDays}
	for day := range int64(sizeDays + 2) { // the first partition is of what was before, the last of what is measured
		for range 2 { // what the api does at a day's beginning, and once more, which makes the next day's ahead
			if _, err := conn.Exec(ctx, `SELECT advance_webhook_partitions($1, 1)`, (today+day)*microsOfDay); err != nil {
				return "", err
			}
		}
		if day == 0 || day > sizeDays {
			continue
		}
		err := conn.QueryRow(ctx, `SELECT max(first_uid) FROM webhook_partitions WHERE opened_at IS NOT NULL`).
			Scan(&rows.first)
		if err != nil {
			return "", err
		}
		rows.from, rows.to = (day-1)*stored/sizeDays+1, day*stored/sizeDays
		if err := s.store(ctx, rows); err != nil {
			return "", err
		}
	}
	return key, nil
}

// store inserts the rows.
func (s *stack) store(ctx context.Context, rows filling) error {
	db, err := database.Open(ctx, database.Config{URL: s.database(), Profile: database.Maintenance,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer db.Close()
	for end := rows.to; rows.from <= end; rows.from += fillBatch {
		rows.to = min(rows.from+fillBatch-1, end)
		err := db.InTx(ctx, "fill", func(ctx context.Context) error {
			if err := rows.number(ctx, db.SQL(ctx)); err != nil {
				return err
			}
			for _, statement := range rows.statements() {
				if err := db.From(ctx).Exec(statement).Error; err != nil {
					return fmt.Errorf("%.40s: %w", statement, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// number stores, for the transaction, the requests' numbers with what SQL does not compute: their deliveries' ids.
func (f filling) number(ctx context.Context, tx database.Pool) error {
	var moments []int64
	var ids []string
	var own []bool // half of the deliveries go to the own endpoint
	for n := f.from; n <= f.to; n++ {
		e := round.Event{UID: f.first + n, At: 1_700_000_000_000_000 + n*86_400, Nonce: n}
		kind := round.Kind(n / 10 % 2)
		moments, ids, own = append(moments, e.At), append(ids, e.WebhookID(kind)), append(own, kind == round.OwnEndpoint)
	}
	if _, err := database.Exec(ctx, tx, `CREATE TEMP TABLE numbers (n bigint, at bigint, id text, own boolean)
		ON COMMIT DROP`); err != nil {
		return err
	}
	_, err := database.Exec(ctx, tx, `INSERT INTO numbers SELECT $1 + i - 1, at, id, own
		FROM unnest($2::bigint[], $3::text[], $4::boolean[]) WITH ORDINALITY AS u(at, id, own, i)`, f.from, moments, ids, own)
	return err
}

func (f filling) statements() []string {
	blob := func(text []byte) string { return fmt.Sprintf("'\\x%x'::bytea", text) }
	from := fmt.Sprintf(` FROM (SELECT n, at, id, own, n + %d AS uid, n / 10 AS part,
			CASE WHEN n %% 10 = 0 THEN '%s' ELSE 'sup_zz_' || (n %% %d) END AS supplier, %d AS next_year
			FROM numbers) AS r`, f.first, f.supplier, otherSuppliers, time.Now().AddDate(1, 0, 0).UnixMicro())
	const status = `CASE WHEN part % 100 = 7 THEN 'failed' WHEN part % 100 = 8 THEN 'enqueued'
		WHEN part % 10 = 3 THEN 'selected' ELSE 'estimated' END`
	return []string{
		`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid, received,
			failure, created_at, updated_at, selected_estimate_id, selected_at, shard, due_at)
			SELECT supplier, n, ` + status + `, ` + blob(make([]byte, 32)) + `, 'SP-0001',
				` + blob(pack.Pack(body(1))) + `, 'trace', uid, CASE WHEN part % 100 IN (7, 8) THEN 0 ELSE 1 END,
				CASE WHEN part % 100 = 7 THEN 'The delivery estimates could not be delivered.' ELSE '' END, at, at,
				CASE WHEN part % 10 = 3 THEN 'est-road' END, CASE WHEN part % 10 = 3 THEN at END, 0,
				CASE WHEN part % 100 = 8 THEN next_year END` + from,
		`INSERT INTO webhook_events (uid, round, nonce, trace_id, body, created_at, supplier_id)
			SELECT uid, 1, n, 'trace', ` + blob(pack.Pack([]byte(eventText))) + `, at, supplier` + from +
			` WHERE part % 100 <> 8`,
		`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts,
			series, next_attempt_at, created_at, updated_at, last_started_at, last_duration_us, last_status)
			SELECT id, uid, 1, CASE WHEN own THEN 'own' ELSE supplier END, supplier, n,
				CASE WHEN part % 100 = 7 OR part % 100 = 51 THEN 'dead' WHEN part % 100 = 53 THEN 'failed'
					WHEN part % 100 = 55 AND n >= ` + fmt.Sprint(f.pending) + ` THEN 'pending' ELSE 'delivered' END,
				2, 2, next_year, at, at, at, 1000, 200` + from + ` WHERE part % 100 <> 8`,
		`INSERT INTO webhook_attempts (delivery_id, supplier_id, number, started_at, duration_us, status)
			SELECT id, supplier, 1, at, 1000, 503` + from + ` WHERE part % 100 <> 8`,
	}
}

// eventText is what the worker stores of a request.
const eventText = `{"type":"material_request.estimated","timestamp":"2026-11-20T12:00:00Z","data":{` +
	`"supplier_id":"sup","request_id":1,"shop_code":"SP-0001","estimates":[{"estimate_id":"est-road","service":"road",` +
	`"carrier":"Rodovia Cargas","price_cents":17080,"currency":"BRL","lead_time_days":6,` +
	`"dispatch_date":"2026-11-23","delivery_date":"2026-11-30",` +
	`"chargeable_weight_kg":81,"volume_m3":0.27,"valid_until":"2026-11-29T02:59:59Z"}],` +
	`"unavailable":[{"service":"express","reason":"The chargeable weight is 45.1 kg, the service takes up to 30 kg."}]}}`
