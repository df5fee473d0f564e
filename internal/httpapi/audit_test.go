package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

func TestAudited_writes_a_line_unless_the_handler_refuses(t *testing.T) {
	t.Parallel()
	type line struct {
		Msg    string `json:"msg"`
		Count  int64  `json:"count"`
		Failed bool   `json:"failed"`
	}
	for name, test := range map[string]struct {
		handle func(*gin.Context) error
		want   []line
	}{
		"done":    {func(*gin.Context) error { return nil }, []line{{"audit", 500, false}}},
		"refused": {func(*gin.Context) error { return errs.New(errs.Conflict, "No.") }, nil},
		"unavailable in the middle": {
			func(*gin.Context) error { return errs.New(errs.Unavailable, "Later.") }, []line{{"audit", 500, true}}},
		"failed in the middle":  {func(*gin.Context) error { return errors.New("broken") }, []line{{"audit", 500, true}}},
		"a panic in the middle": {func(*gin.Context) error { panic("broken") }, []line{{"audit", 500, true}}},
		"a panic that ends the connection": {
			func(*gin.Context) error { panic(http.ErrAbortHandler) }, []line{{"audit", 500, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			log := slog.New(slog.NewJSONHandler(&out, nil))
			engine := httpapi.NewEngine(httpapi.EngineConfig{Log: log})
			engine.POST("/redeliver", httpapi.Audited(log, "delivery.redeliver"), httpapi.Handle(func(c *gin.Context) error {
				logctx.Note(c.Request.Context(), slog.Int64("count", 500))
				return test.handle(c)
			}))
			func() {
				defer func() { _ = recover() }() // as net/http does
				engine.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/redeliver", nil))
			}()
			var got []line
			for text := range bytes.Lines(out.Bytes()) {
				var l line
				if err := json.Unmarshal(text, &l); err != nil {
					t.Fatal(err)
				}
				if l.Msg == "audit" {
					got = append(got, l)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
