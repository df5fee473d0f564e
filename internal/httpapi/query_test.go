package httpapi_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// A route that ignores unknown parameters ignores them whatever they hold. Those that it reads are texts.
func TestParameter_that_no_text_can_be_is_refused_only_where_it_is_read(t *testing.T) {
	t.Parallel()
	engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler)})
	engine.GET("/", httpapi.Handle(func(c *gin.Context) error {
		query, err := httpapi.Query(c)
		if err != nil {
			return err
		}
		violations := append(
			httpapi.Parameter(query, "name", "must be a name", func(string) bool { return true }),
			httpapi.Parameter(query, "n", "must be 1 to 9", httpapi.Natural(new(int), 9))...)
		if len(violations) > 0 {
			return errs.InvalidInput("The parameters are not valid.", violations...)
		}
		return nil
	}))
	engine.GET("/list", httpapi.Handle(func(c *gin.Context) error {
		query, err := httpapi.Query(c)
		if err != nil {
			return err
		}
		list, violations := httpapi.ParseList(query)
		if len(violations) > 0 && list.Cursor != "" {
			t.Errorf("the cursor %q is refused, and read all the same", list.Cursor)
		}
		violations = append(violations, httpapi.UnknownParameters(query)...)
		return errs.InvalidInput("The parameters are not valid.", violations...)
	}))
	for query, want := range map[string][]string{
		"?x=%ff&y=%00": nil, "?x=%ED%A0%80": nil, "?%ff=1": nil, "?name=jo%C3%A3o": nil,
		"?name=jo%E3o": {"name"}, "?name=%00": {"name"}, "?x=%ff&n=0": {`"n"`}, "?name=%ff&n=%ff": {"name", `"n"`},
		"?x=%zz": {`"x"`}, "?x=1;2": {`"x"`},
		"list?%ff=1": {"parameter"}, "list?%00=%ff": {"parameter"},
		"list?cursor=%ff": {"cursor"},
	} {
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+query, nil))
		body := w.Body.String()
		if wrong := len(want) > 0; wrong != (w.Code == http.StatusBadRequest) || !wrong && w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", query, w.Code, body)
		}
		for _, name := range want {
			if !strings.Contains(body, name) {
				t.Errorf("%s: the answer does not name %s: %s", query, name, body)
			}
		}
	}
}
