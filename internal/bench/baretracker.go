package main

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// bareTracker serves /floor and /json_agg until SIGTERM: the page of a day, read and dropped, and as PostgreSQL's own
// JSON.
func bareTracker(ctx context.Context) error {
	address, err := required("DATABASE_URL")
	if err != nil {
		return err
	}
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		return err
	}
	cfg.MaxConns = 8
	cfg.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	fields, err := viewFields(ctx, pool)
	if err != nil {
		return err
	}
	const chosen = ` FROM tracker_client_1 WHERE dt_carga = $1::date ORDER BY dt_carga DESC, id DESC LIMIT 20 OFFSET $2`
	const version = `SELECT generation, max_id FROM tracker_versions WHERE client_number = 1`
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	stored := []byte(`{"page":1,"pageSize":20,"total":1000,"data":[` +
		strings.Repeat(`{"dispositivo":"Rastreador"},`, 1100) + `{}]}`)
	engine.GET("/floor", func(c *gin.Context) {
		err := drop(c.Request.Context(), pool, version)
		if err == nil {
			err = drop(c.Request.Context(), pool, "SELECT "+fields+chosen, dayOf(c), offsetOf(c))
		}
		reply(c, stored, err)
	})
	engine.GET("/json_agg", func(c *gin.Context) {
		var text []byte
		err := drop(c.Request.Context(), pool, version)
		if err == nil {
			err = pool.QueryRow(c.Request.Context(), "SELECT coalesce(json_agg(r), '[]')::text FROM (SELECT "+fields+chosen+
				") r", dayOf(c), offsetOf(c)).Scan(&text)
		}
		reply(c, append(append([]byte(`{"page":1,"pageSize":20,"total":1000,"data":`), text...), '}'), err)
	})
	return serveBare(ctx, engine)
}

// viewFields returns the view's columns but the two that are no fields.
func viewFields(ctx context.Context, pool *pgxpool.Pool) (string, error) {
	rows, err := pool.Query(ctx, `SELECT quote_ident(attname) FROM pg_attribute
		WHERE attrelid = 'tracker_client_1'::regclass AND attnum > 0 AND attname NOT IN ('id', 'dt_carga')`)
	if err != nil {
		return "", err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(names, ", "), err
}

func dayOf(c *gin.Context) string { return strings.TrimPrefix(c.Query("filter"), "date:eq:") }

func offsetOf(c *gin.Context) int {
	page, _ := strconv.Atoi(c.Query("page"))
	return (page - 1) * 20
}

func drop(ctx context.Context, pool *pgxpool.Pool, query string, args ...any) error {
	rows, err := pool.Query(ctx, query, append([]any{pgx.QueryResultFormats{pgx.TextFormatCode}}, args...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		_ = rows.RawValues()
	}
	return rows.Err()
}

func reply(c *gin.Context, body []byte, err error) {
	if err != nil {
		c.String(http.StatusInternalServerError, err.Error())
		return
	}
	c.Data(http.StatusOK, "application/json; charset=utf-8", body)
}
