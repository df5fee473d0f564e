package acceptance

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

// unstorable are texts, as an address has them, that PostgreSQL cannot hold: nothing has them.
var unstorable = []string{"%00", "a%00b", "%FF", "%C3%28", "%ED%A0%80"}

var (
	inPath = regexp.MustCompile(`\{[a-z_]+\}`)
	named  = regexp.MustCompile(`"name":\s*"([a-zA-Z_]+)"`) // a parameter; on a path that has no such one it is ignored
)

func TestTexts_that_nothing_can_have_are_refused_and_never_a_500(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1,
		Env: map[string]string{"OPERATOR_TOKEN": operatorToken, "PULSE_API_KEY": "pulse",
			"SPORTMONKS_API_TOKEN": sportToken, "SPORTMONKS_BASE_URL": newProviders(t).primary.URL + "/v3/football"}})
	s := h.Supplier(t, "--scopes", "material-requests,products,webhooks,estimates:write,orders:read")
	cookie := signIn(t, s)
	refused := func(method, address string, status int) {
		t.Helper()
		if status < 400 || status >= 500 {
			t.Errorf("%s %s: %d", method, address, status)
		}
	}
	description := h.Do(t, http.MethodGet, "/openapi.json", nil)
	names := named.FindAllSubmatch(description.Body, -1)
	for path, methods := range apptest.Decode[struct {
		Paths map[string]map[string]any `json:"paths"`
	}](t, description).Paths {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			if methods[strings.ToLower(method)] == nil {
				continue
			}
			for _, text := range unstorable {
				if inPath.MatchString(path) {
					address := inPath.ReplaceAllString(path, text)
					refused(method, address, s.Do(t, method, address, nil).Status)
				}
			}
			for _, name := range names {
				address := inPath.ReplaceAllString(path, "1") + "?" + string(name[1]) + "=%00"
				status := s.Do(t, method, address, nil, "svc-pulse-key", "pulse").Status
				if status == http.StatusInternalServerError {
					t.Errorf("%s %s: %d", method, address, status)
				}
			}
		}
	}
	if len(names) < 10 {
		t.Errorf("the API has the parameters %q", names)
	}
	for _, name := range []string{"status", "request_id", "since", "until", "unknown"} {
		address := "/api/webhook-deliveries?" + name + "=%00"
		refused(http.MethodGet, address, s.Do(t, http.MethodGet, address, nil).Status)
	}
	for _, text := range unstorable {
		for _, page := range []string{"/requests/", "/deliveries/", "/requests?status=", "/deliveries?status=",
			"/deliveries?request_id=", "/deliveries?since=", "/sign-in?token="} {
			refused(http.MethodGet, page+text, visit(t, http.MethodGet, h.URL(0, "/portal"+page+text), cookie).Status)
		}
		refused(http.MethodPost, text, visit(t, http.MethodPost, h.URL(0, "/portal/deliveries/"+text+"/redeliver"), cookie,
			fromPage[:]...).Status)
		for _, page := range []string{"/requests/x/1", "/requests?supplier_id=x", "/requests?status=x",
			"/requests?after=1~x~1", "/deliveries/x", "/deliveries?supplier_id=x", "/deliveries?status=x",
			"/receivers?supplier_id=x",
			"/receivers?after=x", "/suppliers?after=x", "/suppliers/x", "/rates?service=x", "/search?q=x"} {
			for _, of := range []string{"/console", "/console/api"} {
				address := of + strings.ReplaceAll(page, "x", text)
				if status := atConsole(t, h.APIs[0], address, nil).Status; status == http.StatusInternalServerError {
					t.Errorf("GET %s: %d", address, status)
				}
			}
		}
		raw, err := url.PathUnescape(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range []string{"/deliveries/redeliver", "/requests/reopen", "/receivers/pause", "/receivers/resume",
			"/suppliers/activate", "/suppliers/deactivate", "/suppliers/portal-link", "/suppliers/rotate-key",
			"/suppliers/concurrency", "/rates/remove"} {
			a := atConsole(t, h.APIs[0], "/console"+action, url.Values{"id": {raw}},
				"Authorization", "Bearer "+operatorToken)
			if a.Status >= 500 || a.Status == http.StatusUnauthorized {
				t.Errorf("POST %s with %q: %d %s", action, raw, a.Status, a.Body)
			}
		}
	}
	for _, command := range []string{"delivery show x", "delivery redeliver x", "delivery list --supplier x",
		"request list --supplier x", "request show x 1", "request reopen x 1", "supplier deactivate x",
		"tracker client deactivate x", "settings unset x"} { // a NUL cannot be said
		out, errOut, code := h.Command(t, strings.Fields(strings.ReplaceAll(command, "x", "\xff"))...)
		if code == 0 || strings.Contains(errOut, "SQLSTATE") {
			t.Errorf("api %q: exit code %d %s%s", command, code, out, errOut)
		}
	}
}
