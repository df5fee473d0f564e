package acceptance

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// hangUp sends a whole call and is gone before its answer.
func hangUp(t *testing.T, hub *apptest.Hub, s *apptest.Supplier, route, body, id string) {
	t.Helper()
	method, path, _ := strings.Cut(route, " ")
	conn, err := net.Dial("tcp", strings.TrimPrefix(hub.URL(0, ""), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(conn)
	_, _ = fmt.Fprintf(w, "%s %s HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer %s\r\nX-Request-Id: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, s.AccessToken(), id, len(body), body)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAudit_has_a_line_of_every_change_whose_caller_hangs_up(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			hub := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			s := hub.Supplier(t, "--webhook-url", "http://127.0.0.1:9")
			s.Token(t)
			const receiver = "/api/webhook-receiver"
			for turn := range 5 {
				for name, call := range map[string]struct{ route, body string }{
					"set":     {"PUT " + receiver, fmt.Sprintf(`{"url":"http://127.0.0.1:9/%d"}`, turn)},
					"rotate":  {"POST " + receiver + "/rotate-secret", `{}`},
					"pause":   {"POST " + receiver + "/pause", ``},
					"resume":  {"POST " + receiver + "/resume", ``},
					"link":    {"POST /api/portal-sessions", ``},
					"recover": {"POST /api/webhook-deliveries/redeliver", `{"status":"undelivered","since":"2026-01-01T00:00:00Z"}`},
				} {
					id := fmt.Sprintf("%s-%d", name, turn)
					hangUp(t, hub, s, call.route, call.body, id)
					wait.Until(t, id+" has its line", func() bool { return auditLine(hub, id) != "" })
					if line := auditLine(hub, id); strings.Contains(line, `"failed":true`) {
						t.Errorf("%s was not done to its end: %s", id, line)
					}
				}
			}
			if a := s.Do(t, http.MethodGet, receiver, nil); !strings.Contains(string(a.Body), `http://127.0.0.1:9/4`) {
				t.Errorf("the address was not set: %s", a.Body)
			}
		})
	}
}

// auditLine returns the audit's line of a call, empty while there is none.
func auditLine(hub *apptest.Hub, id string) string {
	for line := range strings.Lines(hub.APIs[0].Log()) {
		if strings.Contains(line, `"msg":"audit"`) && strings.Contains(line, `"request_id":"`+id+`"`) {
			return line
		}
	}
	return ""
}
