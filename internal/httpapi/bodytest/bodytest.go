// Package bodytest measures, for tests, what it costs to read, validate and refuse a body, and refuses without memory.
package bodytest

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// How much a body may allocate, from its first byte to the last of its answer.
const (
	allowed   = 64      // times its size
	alsoSmall = 1 << 20 // bytes: an answer of a thousand violations, gin, the recorder
)

// Body is one type of body that the service reads.
type Body struct {
	name   string
	served http.Handler
}

// Of returns the type of body that the rules are of.
func Of[T any](name string, validate func(*T) []errs.Violation) Body {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.POST("/", httpapi.Handle(func(c *gin.Context) error {
		httpapi.Known(c, "acme")
		_, err := httpapi.DecodeJSON(c, validate)
		return err
	}))
	return Body{name, engine}
}

// Fuzz checks that no text costs more than a small multiple of its size, whichever body it is sent as.
func Fuzz(f *testing.F, bodies ...Body) {
	f.Helper()
	for _, text := range hostile() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, body := range bodies {
			most := uint64(timesItsSize*len(text) + alsoSmall)
			if got := body.allocates(text, most); got > most {
				t.Errorf("%s: %d bytes allocate %d, want at most %d: %.60q", body.name, len(text), got, most, text)
			}
		}
	})
}

// allocates returns how many bytes, the least of three runs unless one is within the limit: other goroutines allocate
// too.
func (b Body) allocates(text []byte, most uint64) uint64 {
	least := ^uint64(0)
	for run := 0; run < 3 && least > most; run++ {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(text)))
		w := httptest.NewRecorder()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b.served.ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// hostile returns texts that once cost far more than their size, in the size that a stranger may send and in a
// large one.
func hostile() (texts []string) {
	for _, size := range []int{16_000, 100_000} {
		half, name := size/2, strings.Repeat("n", size/2)
		texts = append(texts,
			`{"`+name+`":["\u0000"`+strings.Repeat(`,"\u0000"`, half/9)+`]}`,
			`{"x":{"`+name+`":[`+strings.Repeat(`"\u0000",`, half/9)+`0]}}`,
			`{"`+name+`":[`+strings.Repeat(`null,`, half/5)+`0]}`,
			strings.Repeat(`{"a":`, 190)+`["\u0000"`+strings.Repeat(`,"\u0000"`, size/10)+`]`+strings.Repeat(`}`, 190),
			strings.Repeat(`{"a":`, min(9500, size/6))+`["\u0000"`+strings.Repeat(`,"\u0000"`, size/40)+`]`+
				strings.Repeat(`}`, min(9500, size/6)),
			strings.Repeat(`{"\u0000":`, min(9500, size/12))+`1`+strings.Repeat(`}`, min(9500, size/12)),
			strings.Repeat(`[`, size), `{"id":"`+name+name+`"}`, `{"id":`+strings.Repeat("9", size)+`}`,
			`{"`+name+`":1,"`+name+`":2}`, `{"`+name+``, "{\""+name+"\":\"\xff\"}",
		)
		for _, list := range []string{`{"materials":[`, `{"data":{"estimates":[`, `{"data":{"unavailable":[`, `{"x":[`} {
			end := `]` + strings.Repeat(`}`, strings.Count(list, "{"))
			for _, item := range []string{`0`, `{}`, `null`, `""`, `[]`, `{"sku":0}`, `{"sku":"\u0000"}`} {
				texts = append(texts, list+item+strings.Repeat(","+item, size/(len(item)+1))+end)
			}
			texts = append(texts, list+`{}`+strings.Repeat(",{}", size/3)+`,{"\u0000":0}`+end)
		}
	}
	return texts
}

// WhileHeld does something while a call of the holder, "" for a stranger, has as much memory as one caller can have.
func WhileHeld(t *testing.T, engine *gin.Engine, holder string, do func()) {
	t.Helper()
	engine.POST("/hold", func(c *gin.Context) {
		httpapi.Known(c, holder)
		if err := httpapi.Hold(c, 1<<40); err != nil {
			t.Error(err)
		}
		do()
	})
	engine.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hold", nil))
}

// RefuseWithoutMemory lets a page refuse a form for a thousand faults, which is more than a connection is counted with,
// while another call has as much memory as one caller can have. The answer's message must begin so.
func RefuseWithoutMemory(t *testing.T, page func(httpapi.Handler) gin.HandlerFunc, message string) {
	t.Helper()
	const bytes = 32 << 10
	engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler),
		Ledger: httpapi.NewLedger(bytes, bytes)})
	many := slices.Repeat([]errs.Violation{errs.InParameter("since", "must be a date and time")}, 1000)
	engine.POST("/act", page(func(*gin.Context) error { return errs.InvalidInput("The form is not valid.", many...) }))
	post := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil))
		return w
	}
	var w *httptest.ResponseRecorder
	WhileHeld(t, engine, "", func() { w = post("/act") })
	var outcome struct{ Message string }
	if err := json.Unmarshal(w.Body.Bytes(), &outcome); err != nil || w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") != "1" || !strings.HasPrefix(outcome.Message, message) {
		t.Errorf("%d %v %.300q, %v", w.Code, w.Header(), w.Body, err)
	}
	if w := post("/act"); w.Code != http.StatusBadRequest {
		t.Errorf("with memory: %d", w.Code)
	}
}
