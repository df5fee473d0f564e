package acceptance

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	hostileWait   = 45 * time.Second // longer than the server lets anything take that is no long poll
	idleSockets   = 10_000
	hostileMemory = 256 // MiB that an api may hold at any time
)

// TestHostileCallers lets one service meet them all, one kind after the other while the slow ones are there, and asks
// it for its usual answers after each.
func TestHostileCallers(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			s, slow := h.Supplier(t), h.Supplier(t)
			cutOff, answered := slowCallers(t, h, s, slow), missingBodies(t, h)
			slowOnes := func(*testing.T, *apptest.Hub, *apptest.Supplier) { cutOff(); answered() }
			for _, attack := range []struct {
				name string
				make func(*testing.T, *apptest.Hub, *apptest.Supplier)
			}{
				{"Smuggling", smuggling}, {"Paths", pathTricks}, {"Overrides", overrides}, {"Bodies", hostileBodies},
				{"Idle", idleCallers}, {"Slow", slowOnes},
			} {
				t.Run(attack.name, func(t *testing.T) { attack.make(t, h, s) })
				becomes(t, s, submit(t, s, nil), "estimated")
				want(t, s.Do(t, http.MethodGet, ping, nil), http.StatusOK)
			}
		})
	}
}

// raw sends bytes as they are and reads every answer until the server hangs up, or falls silent.
func raw(t *testing.T, h *apptest.Hub, text string) []*http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", h.APIs[0].Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Logf("the server hung up while it was written to: %v", err)
	}
	var answers []*http.Response
	patience := time.Minute // for the first answer, which each of them has
	for reader := bufio.NewReader(conn); ; patience = 2 * time.Second {
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return answers
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return answers
		}
		response.Body = io.NopCloser(bytes.NewReader(body))
		answers = append(answers, response)
	}
}

func head(line string, headers ...string) string {
	return line + " HTTP/1.1\r\n" + strings.Join(append([]string{"Host: x"}, headers...), "\r\n") + "\r\n\r\n"
}

// smuggling: requests that two servers may read differently are refused, or read in one way and the connection closed.
func smuggling(t *testing.T, h *apptest.Hub, s *apptest.Supplier) {
	bearer := "Authorization: Bearer " + s.AccessToken()
	for name, text := range map[string]string{
		"two lengths":          head("POST "+requests, bearer, "Content-Length: 4", "Content-Length: 5") + "{}  ",
		"a signed length":      head("POST "+requests, bearer, "Content-Length: +4") + "{}  ",
		"a negative length":    head("POST "+requests, bearer, "Content-Length: -4") + "{}  ",
		"a hexadecimal length": head("POST "+requests, bearer, "Content-Length: 0x4") + "{}  ",
		"an unknown encoding":  head("POST "+requests, bearer, "Transfer-Encoding: xchunked") + "0\r\n\r\n",
		"two encodings":        head("POST "+requests, bearer, "Transfer-Encoding: chunked, identity") + "0\r\n\r\n",
		"an encoding twice": head("POST "+requests, bearer, "Transfer-Encoding: chunked",
			"Transfer-Encoding: chunked") + "0\r\n\r\n",
		"a space before the colon": head("POST "+requests, bearer, "Content-Length : 4") + "{}  ",
		"a folded header":          head("POST "+requests, bearer, "Transfer-Encoding:\r\n chunked") + "0\r\n\r\n",
		"a zero byte in a header":  head("GET "+ping, bearer, "X-Request-Id: a\x00b"),
		"a line break in a name":   head("GET "+ping, bearer, "X-Re\rquest: a"),
		"no host":                  "GET " + ping + " HTTP/1.1\r\n" + bearer + "\r\n\r\n",
		"two hosts":                head("GET "+ping, bearer, "Host: y"),
		"a bad host":               "GET " + ping + " HTTP/1.1\r\nHost: a b\r\n" + bearer + "\r\n\r\n",
		"no version":               "GET " + ping + "\r\n\r\n",
		"another version":          "GET " + ping + " HTTP/3.0\r\nHost: x\r\n" + bearer + "\r\n\r\n",
		"a chunk that is no number": head("POST "+requests, bearer, "Content-Type: application/json",
			"Transfer-Encoding: chunked") + "zz\r\n{}\r\n0\r\n\r\n",
		"a chunk of absurd size": head("POST "+requests, bearer, "Content-Type: application/json",
			"Transfer-Encoding: chunked") + "fffffffffffffffff\r\n{}\r\n0\r\n\r\n",
		"headers of 64 KiB":           head("GET "+ping, bearer, "X-Long: "+strings.Repeat("x", 64<<10)),
		"a path of 64 KiB":            head("GET /"+strings.Repeat("x", 64<<10), bearer),
		"a proxy's request":           "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
		"TRACE":                       head("TRACE "+ping, bearer),
		"a request line of line ends": strings.Repeat("\r\n", 100) + "x\r\n\r\n",
	} {
		answers := raw(t, h, text)
		if len(answers) > 1 {
			t.Errorf("%s: %d answers to one request", name, len(answers))
		}
		for _, a := range answers {
			body, _ := io.ReadAll(a.Body)
			if a.StatusCode < 400 || a.StatusCode == http.StatusInternalServerError ||
				bytes.Contains(body, []byte(s.AccessToken())) {
				t.Errorf("%s: %d %s", name, a.StatusCode, body)
			}
		}
	}
	// The length is ignored with chunks, as RFC 9112 6.3 has it; the body that a proxy saw is no second request.
	hidden := head("GET "+ping, bearer)
	both := head("POST "+requests, bearer, "Content-Type: application/json",
		fmt.Sprintf("Content-Length: %d", 5+len(hidden)), "Transfer-Encoding: chunked") + "0\r\n\r\n" + hidden
	if answers := raw(t, h, both); len(answers) != 1 || answers[0].StatusCode != http.StatusBadRequest ||
		!answers[0].Close {
		t.Errorf("a length with chunks: %d answers", len(answers))
	}
}

// pathTricks: a path is what it spells; no other spelling reaches a resource, and none is redirected.
func pathTricks(t *testing.T, h *apptest.Hub, s *apptest.Supplier) {
	bearer := "Authorization: Bearer " + s.AccessToken()
	id := submit(t, s, nil)
	for _, path := range []string{
		"/api/external/../external/ping", "/./api/external/ping", "//api/external/ping", "/api//external/ping", ping +
			"/", ping + "/.", ping + "%00", ping + ";x=1", ping + "%20",
		"/API/external/ping", "/api%2Fexternal%2Fping", "/api/external%2Fping", "/api%252Fexternal%252Fping",
		`/api\external\ping`, "/api/external/ping%0d%0aSet-Cookie:x=1",
		requests + "/..%2f..%2fopenapi.json", requests + "/%2e%2e/%2e%2e/openapi.json", requests +
			"/..;/", fmt.Sprintf("%s/%d%%2f", requests, id), fmt.Sprintf("%s/%d/", requests, id),
		fmt.Sprintf("%s/+%d", requests, id), fmt.Sprintf("%s/0%d", requests, id), fmt.Sprintf("%s/%d.0", requests, id),
		fmt.Sprintf("%s/%d%%00", requests, id), requests + "/9223372036854775808", requests + "/-1",
		"/portal/..%2f%5cevil.example%2flogin?lang=pt", "/portal/requests/..%2f..%2f%5cevil.example?lang=pt",
		`/portal/\evil.example?lang=pt`, "/portal/%2e%2e/x?lang=pt", "/portal/nowhere?lang=pt", "//evil.example/..?lang=pt",
		"/debug/pprof/", "/metrics", "/docs/../metrics", "/docs/..%2f..%2fetc/passwd", "/docs/%2e%2e/%2e%2e/etc/passwd",
	} {
		answers := raw(t, h, head("GET "+path, bearer, "Connection: close"))
		if len(answers) != 1 || answers[0].StatusCode != http.StatusNotFound &&
			answers[0].StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d answers, the first %+v", path, len(answers), answers)
			continue
		}
		if answers[0].Header.Get("Set-Cookie") != "" || answers[0].Header.Get("Location") != "" {
			t.Errorf("%s: %v", path, answers[0].Header)
		}
	}
	// as a proxy is asked: it is still our own path
	for _, target := range []string{"http://169.254.169.254" + ping, "http://x" + ping} {
		if answers := raw(t, h, head("GET "+target, "Connection: close")); len(answers) != 1 ||
			answers[0].StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %+v", target, answers)
		}
	}
}

// overrides: no header and no parameter changes the method, the address or who is asking.
func overrides(t *testing.T, h *apptest.Hub, s *apptest.Supplier) {
	for _, header := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		wantProblem(t, s.Do(t, http.MethodPost, ping+"?_method=GET", nil, header, "GET"), http.StatusMethodNotAllowed)
	}
	for _, header := range []string{"X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Prefix"} {
		wantProblem(t, s.Do(t, http.MethodGet, "/nowhere", nil, header, ping), http.StatusNotFound)
	}
	for _, header := range []string{"X-Supplier-Id", "X-User", "X-Forwarded-User"} {
		wantEmpty(t, h.Do(t, http.MethodGet, ping, nil, header, s.ID), http.StatusUnauthorized)
	}
	text := raw(t, h, head("GET "+ping, "Authorization: Bearer "+s.AccessToken(), "X-Request-Id: a", "X-Request-Id: b",
		"Connection: close"))
	if len(text) != 1 || text[0].StatusCode != http.StatusOK || len(text[0].Header.Values("X-Request-Id")) != 1 ||
		len(text[0].Header.Get("X-Request-Id")) < 20 {
		t.Errorf("two request ids: %+v", text)
	}
	for _, query := range []string{"?limit=1&limit=100", "?cursor=x&cursor=x", "?status=enqueued&status=estimated",
		"?limit=1;status=failed", "?%zz"} {
		if a := s.Do(t, http.MethodGet, requests+query, nil); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d", query, a.Status)
		}
	}
}

// hostileBodies: bodies that are too large, too deep or endless are refused early, and cost no memory that stays.
func hostileBodies(t *testing.T, h *apptest.Hub, s *apptest.Supplier) {
	const mebibyte = 1 << 20
	deep := strings.Repeat("[", mebibyte/2-10) + strings.Repeat("]", mebibyte/2-10)
	for name, body := range map[string]string{
		"arrays":            deep,
		"objects":           strings.Repeat(`{"a":`, mebibyte/6-10) + "1" + strings.Repeat("}", mebibyte/6-10),
		"in an item":        `{"id":1,"shop_code":"x","materials":[` + deep[100:len(deep)-100] + `]}`,
		"in an unknown one": `{"id":1,"shop_code":"x","unknown":` + deep[100:len(deep)-100] + `}`,
		"equal members":     `{` + strings.Repeat(`"id":1,`, mebibyte/8) + `"id":1}`,
		"a long number":     `{"id":` + strings.Repeat("9", mebibyte-100) + `}`,
		"a long string":     `{"shop_code":"` + strings.Repeat("x", mebibyte-100) + `"}`,
		"escapes":           `{"shop_code":"` + strings.Repeat(`\u0041`, mebibyte/6-100) + `"}`,
		"lone surrogates":   `{"id":1,"shop_code":"\ud800","materials":[]}`,
		"no UTF-8":          "{\"id\":1,\"shop_code\":\"\xff\",\"materials\":[]}",
		"many bad estimates": `{"type":"x","data":{"estimates":[` + strings.TrimSuffix(strings.Repeat(`{},`, 300_000), ",") +
			`]}}`,
		"many violations": `{"id":1,"shop_code":"x","materials":[` +
			strings.TrimSuffix(strings.Repeat(`{},`, 300_000), ",") + `]}`,
	} {
		now, own := time.Now(), secret(t, h.ServiceSecret(t))
		signed := []string{webhook.HeaderID, "hostile", webhook.HeaderTimestamp, fmt.Sprint(now.Unix()),
			webhook.HeaderSignature, webhook.Sign("hostile", now, []byte(body), own)}
		for _, a := range []apptest.Answer{s.Do(t, http.MethodPost, requests, body),
			h.Do(t, http.MethodPost, estimatesPath(1), body, signed...)} {
			if a.Status != http.StatusBadRequest || len(a.Body) > mebibyte/2 {
				t.Errorf("%s: %d with %d bytes", name, a.Status, len(a.Body))
			}
		}
	}
	if held := rss(t, h.APIs[0]); held > hostileMemory && os.Getenv("SUPPLYHUB_TEST_RACE") == "" {
		t.Errorf("the api held %d MiB, more than %d", held, hostileMemory)
	}
	bearer := "Authorization: Bearer " + s.AccessToken()
	for name, text := range map[string]string{
		"one byte too many": head("POST "+requests, bearer, "Content-Type: application/json",
			fmt.Sprintf("Content-Length: %d", mebibyte+1)) + strings.Repeat(" ", mebibyte+1),
		"announced only": head("POST "+requests, bearer, "Content-Type: application/json", "Content-Length: 99999999999",
			"Expect: 100-continue"),
		"without an end": head("POST "+requests, bearer, "Content-Type: application/json", "Transfer-Encoding: chunked") +
			strings.Repeat("10000\r\n"+strings.Repeat(" ", 1<<16)+"\r\n", 100),
	} {
		answers := raw(t, h, text)
		if len(answers) != 1 || answers[0].StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d answers: %+v", name, len(answers), answers)
		}
	}
}

// slowCallers: who sends its headers or its body drop by drop is cut off, and keeps no other caller waiting meanwhile.
// They begin; cutOff waits for their end.
func slowCallers(t *testing.T, h *apptest.Hub, s, slow *apptest.Supplier) (cutOff func()) {
	t.Helper()
	bearer := "Authorization: Bearer " + slow.AccessToken()
	begun := map[string]string{
		"headers": "GET " + ping + " HTTP/1.1\r\nHost: x\r\n",
		"body":    head("POST "+requests, bearer, "Content-Type: application/json", "Content-Length: 100000") + "{",
	}
	var group sync.WaitGroup
	took := apptest.Stopwatch(t)
	t.Cleanup(group.Wait)
	for name, text := range begun {
		for range 100 {
			group.Go(func() {
				conn, err := net.Dial("tcp", h.APIs[0].Address())
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				begin := took()
				for _, err = io.WriteString(conn, text); err == nil; _, err = io.WriteString(conn, "x") {
					if took()-begin > hostileWait { // ReadTimeout is 30 s
						t.Errorf("slow %s: still connected after %v", name, hostileWait)
						return
					}
					time.Sleep(200 * time.Millisecond)
				}
			})
		}
	}
	slowest := time.Duration(0)
	for range 20 {
		begin := time.Now()
		want(t, s.Do(t, http.MethodGet, ping, nil), http.StatusOK)
		slowest = max(slowest, time.Since(begin))
	}
	t.Logf("while 200 callers are slow, the slowest of 20 answers took %v", slowest)
	return group.Wait
}

// missingBodies: a body that is announced too long or does not come is answered as an invalid one of its route. They
// begin; answered waits for their end, half a minute later.
func missingBodies(t *testing.T, h *apptest.Hub) (answered func()) {
	t.Helper()
	s := h.Supplier(t)
	bearer, key := "Authorization: Bearer "+s.AccessToken(), "x-api-key: "+s.APIKey
	var group sync.WaitGroup
	t.Cleanup(group.Wait)
	for _, c := range []struct {
		text   string
		status int
		says   string
	}{
		{head("POST "+requests, bearer, "Content-Length: 2000000"), 413, "over 1 MiB"},
		{head("POST "+requests, bearer, "Content-Length: 100"), 400, "did not arrive in time"},
		{head("POST "+requestPath(1)+"/re-estimate", bearer, "Content-Length: 2000000"), 413, "over 1 MiB"},
		{head("POST "+tokenPath, key, "Content-Length: 20000"), 413, "over 16 KiB"},
		{head("POST "+refreshPath, "Content-Length: 20000"), 401, "invalid_grant"},
		{head("POST "+refreshPath, "Content-Length: 100") + "{", 401, "invalid_grant"},
		{head("POST "+revokePath, "Content-Length: 20000"), 204, ""},
		{head("POST "+revokePath, "Content-Length: 100") + "{", 204, ""},
	} {
		group.Go(func() {
			t.Run("Missing body of "+c.text[:strings.Index(c.text, " HTTP")], func(t *testing.T) {
				answers := raw(t, h, c.text)
				if len(answers) != 1 || answers[0].StatusCode != c.status || !answers[0].Close {
					t.Fatalf("%d answers: %+v", len(answers), answers)
				}
				if body, _ := io.ReadAll(answers[0].Body); !strings.Contains(string(body), c.says) {
					t.Errorf("%s", body)
				}
			})
		})
	}
	return group.Wait
}

// manySockets is held by the one test that has idleSockets: a process may often have 20,000 files open, not more.
var manySockets sync.Mutex

// idleCallers: connections without a request cost little memory, and the others are served as ever.
func idleCallers(t *testing.T, h *apptest.Hub, s *apptest.Supplier) {
	manySockets.Lock()
	defer manySockets.Unlock()
	before, conns := rss(t, h.APIs[0]), make([]net.Conn, 0, idleSockets)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for range idleSockets {
		conn, err := net.Dial("tcp", h.APIs[0].Address())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	slowest := time.Duration(0)
	for range 20 {
		begin := time.Now()
		want(t, s.Do(t, http.MethodGet, ping, nil), http.StatusOK)
		slowest = max(slowest, time.Since(begin))
	}
	held := rss(t, h.APIs[0])
	t.Logf("%d idle connections: %d MiB at most, %d before; the slowest of 20 answers took %v", len(conns), held, before,
		slowest)
	if held > hostileMemory && os.Getenv("SUPPLYHUB_TEST_RACE") == "" {
		t.Errorf("the api holds %d MiB, more than %d", held, hostileMemory)
	}
}
