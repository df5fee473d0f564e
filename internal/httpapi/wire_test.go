package httpapi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// wireServer is a server as the api runs it, with one route that reads a body, one that knows no caller and one that
// takes no body.
func wireServer(t *testing.T) string {
	t.Helper()
	engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler)})
	engine.POST("/read", func(c *gin.Context) { _, _ = io.Copy(c.Writer, c.Request.Body) })
	engine.POST("/unknown", httpapi.Handle(func(*gin.Context) error {
		return errs.New(errs.Unauthenticated, "Who are you?")
	}))
	engine.POST("/none", httpapi.Handle(func(c *gin.Context) error {
		httpapi.Known(c, "acme")
		return httpapi.Proper(c)
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpapi.NewServer(engine, slog.New(slog.DiscardHandler))
	go func() { _ = server.Serve(httpapi.NewLedger(1<<30, 1<<30).Listener(l)) }()
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()
}

func post(path string, fields ...string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: hub\r\n" + strings.Join(append(fields, "\r\n"), "\r\n")
}

const chunks = "2\r\nhi\r\n0\r\n\r\n"

// A proxy may have read another end of a request that says two.
func TestServer_keeps_connections_unless_a_length_and_chunks_came_together(t *testing.T) {
	t.Parallel()
	const chunked, length = "Transfer-Encoding: chunked", "Content-Length: 2"
	for name, c := range map[string]struct {
		requests []string
		kept     bool // after the last one
	}{
		"chunks":   {[]string{post("/read", chunked) + chunks, post("/read", chunked) + chunks}, true},
		"a length": {[]string{post("/read", length) + "hi"}, true},
		"chunks after lengths": {[]string{post("/read", length) + "hi", post("/read", length) + "hi",
			post("/read", chunked) + chunks}, true},
		"both":                   {[]string{post("/read", chunked, length) + chunks}, false},
		"both, the length first": {[]string{post("/read", "content-LENGTH:2", chunked) + chunks}, false},
		"both after what is right": {[]string{post("/read", length) + "hi", post("/read", chunked) + chunks,
			post("/read", length, chunked) + chunks}, false},
		"a body that looks like both": {[]string{post("/read", "Content-Length: 19") + "\r\nContent-Length: 2",
			post("/read", chunked) + chunks}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", wireServer(t))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			answers := bufio.NewReader(conn)
			for i, request := range c.requests {
				for _, part := range []string{request[:len(request)/2], request[len(request)/2:]} { // a field in two reads too
					if _, err := io.WriteString(conn, part); err != nil {
						t.Fatal(err)
					}
				}
				answer, err := http.ReadResponse(answers, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				if kept := i < len(c.requests)-1 || c.kept; answer.StatusCode != http.StatusOK || answer.Close == kept {
					t.Errorf("answer %d: %s, closes: %t", i, answer.Status, answer.Close)
				}
			}
		})
	}
}

func TestServer_refuses_without_waiting_for_the_body(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path   string
		fields []string
		status int
	}{
		"a stranger's with a length":           {"/unknown", []string{"Content-Length: 100"}, 401},
		"a stranger's in chunks":               {"/unknown", []string{"Transfer-Encoding: chunked"}, 401},
		"a stranger's with an expected answer": {"/unknown", []string{"Content-Length: 100", "Expect: 100-continue"}, 401},
		"one announced over 1 MiB":             {"/none", []string{"Content-Length: 1048577"}, 413},
		"such a one with an expected answer":   {"/none", []string{"Content-Length: 1048577", "Expect: 100-continue"}, 413},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", wireServer(t))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			// Within the 30 s after which a body is given up: a server that waits for it answers later.
			if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprint(conn, post(c.path, c.fields...)); err != nil {
				t.Fatal(err)
			}
			answers := bufio.NewReader(conn)
			answer, err := http.ReadResponse(answers, nil)
			if err != nil || answer.StatusCode != c.status {
				t.Fatalf("%v, %v", answer, err)
			}
			if _, err := io.Copy(io.Discard, answers); err != nil {
				t.Errorf("the connection stays open for a body that does not come: %v", err)
			}
		})
	}
	t.Run("a large body on its way is read, so that its sender reads the answer", func(t *testing.T) {
		t.Parallel()
		body := strings.NewReader(strings.Repeat("x", 900<<10))
		answer, err := http.Post("http://"+wireServer(t)+"/unknown", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		if _ = answer.Body.Close(); answer.StatusCode != http.StatusUnauthorized || answer.Close || body.Len() > 0 {
			t.Errorf("%s, closes: %t, %d bytes were not taken", answer.Status, answer.Close, body.Len())
		}
	})
	t.Run("a body that comes keeps the connection", func(t *testing.T) {
		t.Parallel()
		conn, err := net.Dial("tcp", wireServer(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		answers := bufio.NewReader(conn)
		for range 2 {
			if _, err := fmt.Fprint(conn, post("/unknown", "Content-Length: 2")+"hi"); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(answers, nil)
			if err != nil || answer.StatusCode != http.StatusUnauthorized || answer.Close {
				t.Fatalf("%v, %v", answer, err)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
		}
	})
}

// A body whose length is not announced is read to see its length; its form, or its JSON, is still there for the route.
func TestProper_leaves_a_body_in_chunks_to_its_route(t *testing.T) {
	t.Parallel()
	engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler)})
	engine.POST("/form", httpapi.Handle(func(c *gin.Context) error {
		if err := errors.Join(httpapi.Proper(c), httpapi.ReadForm(c, 100)); err != nil {
			return err
		}
		return httpapi.JSON(c, http.StatusOK, c.PostForm("a"))
	}))
	for body, want := range map[string]string{"a=b": `"b"`, "": `""`, "a=" + strings.Repeat("x", 100): "413"} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/form", struct{ io.Reader }{
			strings.NewReader(body)})
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		if engine.ServeHTTP(w, request); !strings.Contains(w.Body.String(), want) {
			t.Errorf("%.10s: %d %s", body, w.Code, w.Body)
		}
	}
}

// As many slow requests as a proxy has connections once kept all its other callers out.
func TestProxy_s_callers_share_its_connections(t *testing.T) {
	t.Parallel()
	const connections = 64 // that there is memory for; an address may have half of them
	engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler),
		Ledger: httpapi.NewLedger(0, connections<<15), TrustedProxies: []string{"127.0.0.0/8"}})
	begun := make(chan struct{}, connections)
	engine.POST("/read", func(c *gin.Context) {
		begun <- struct{}{}
		_, _ = io.Copy(c.Writer, c.Request.Body)
	})
	engine.POST("/unread", func(*gin.Context) { begun <- struct{}{} })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpapi.NewServer(engine, slog.New(slog.DiscardHandler))
	go func() { _ = server.Serve(httpapi.NewLedger(0, connections<<15).Listener(l)) }()
	t.Cleanup(func() { _ = server.Close() })
	ask := func(client, path, body string) <-chan string {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, post(path, "X-Forwarded-For: "+client, "Content-Length: 2")+body); err != nil {
			t.Fatal(err)
		}
		status := make(chan string, 1)
		go func() {
			line, _ := bufio.NewReader(conn).ReadString('\n')
			status <- strings.TrimSpace(line)
		}()
		return status
	}
	refused := 0
	for i := range 3 * connections { // the bodies never come
		select {
		case status := <-ask("203.0.113.1", []string{"/read", "/unread"}[i%2], ""):
			if strings.Contains(status, " 503 ") {
				refused++
			}
		case <-begun:
		}
	}
	if refused < connections {
		t.Errorf("%d of %d calls of one caller are refused", refused, 3*connections)
	}
	if got := <-ask("203.0.113.2", "/read", "hi"); got != "HTTP/1.1 200 OK" {
		t.Errorf("another caller: %q", got)
	}
}
