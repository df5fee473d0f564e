//go:build unix

package running_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/deployments/guide"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
)

// How long an answer takes while the database is away.
const (
	longestAnswer  = 3 * time.Second
	longestRefusal = 9 * time.Second // the database's name is looked up first, for up to 5 s where the engine has no DNS
)

const compose = "docker compose -f deployments/compose.yaml "

// The story of an operator, by the lines of README.md, scaling.md, upgrade.md and backup.md.
func TestCompose_starts_scales_upgrades_and_restores_by_the_lines_of_the_guides(t *testing.T) {
	m := newMachine(t)
	port := strconv.Itoa(queuetest.FreePort(t))
	m.env = append(m.env, "PUBLIC_PORT="+port, "PUBLIC_URL=https://hub.example")
	t.Cleanup(func() { _, _ = m.try(m.tree(), "sh", "-c", compose+"--profile command down --volumes --timeout 1") })
	printed := m.typed(guide.Blocks(t, document("../README.md"), "Going to production")[0])
	l := newLoad(t, "http://127.0.0.1:"+port, regexp.MustCompile(`hub_sk_\w+`).FindString(printed))
	scale := guide.Blocks(t, document("scaling.md"), "Ways to run it")[0]
	l.while("scaling", func() {
		m.typed(scale)
		m.typed(strings.Replace(scale, "worker=6", "worker=1", 1))
		m.typed(scale)
	})
	m.typed(`sed -i 's/^VERSION=.*/VERSION=v0.2.0/' deployments/.env`)
	l.while("the upgrade", func() { m.typed(guide.Blocks(t, document("upgrade.md"), "With compose")[0]) })
	quick := os.Getenv("QUICK") != "" // no version is linked in
	if version := m.typed(compose + "exec -T api-1 /usr/local/bin/api --version"); !quick &&
		!strings.Contains(version, "v0.2.0") {
		t.Errorf("after the upgrade an api is %s", version)
	}
	t.Run("callers", func(t *testing.T) { m.t, l.t = t, t; m.knowsCallers(l) })
	m.t, l.t = t, t
	m.keepsWithinBounds()
	t.Run("without the database", func(t *testing.T) { m.t, l.t = t, t; m.answersWithoutDatabase(l) })
	m.t, l.t = t, t
	l.estimated(1)
	blocks := guide.Blocks(t, document("backup.md"), "PostgreSQL with compose")
	l.while("the dump", func() { m.typed(blocks[0]) })
	m.typed(compose + "down --volumes")
	m.typed(blocks[1])
	l.estimated(1)
	l.while("the service that was restored", func() { m.typed(scale) })
}

// keepsWithinBounds checks what grows, and what an operator asks.
func (m machine) keepsWithinBounds() {
	m.t.Helper()
	for _, volume := range strings.Fields(m.run(m.tree(), "docker", "volume", "ls", "--quiet")) {
		if !strings.HasPrefix(volume, "supplyhub_") {
			m.t.Errorf("a volume without a name was left: %s", volume)
		}
	}
	for _, container := range strings.Fields(m.typed(compose + "ps --quiet")) {
		config := m.run(m.tree(), "docker", "inspect", "--format", "{{.HostConfig.LogConfig}}", container)
		if !strings.Contains(config, "max-size") {
			m.t.Errorf("logs without a bound: %s", config)
		}
	}
	for _, name := range []string{"api-1", "api-2", "worker"} {
		if text := m.typed(compose + "exec -T proxy wget -q -O - http://" + name + ":9090/metrics"); !strings.Contains(text,
			"supplyhub_requests") {
			m.t.Errorf("%s shows no metrics by its name", name)
		}
	}
	link := m.typed(compose + "run --rm command supplier portal-link Acme")
	if !strings.Contains(link, "https://hub.example/portal/") {
		m.t.Errorf("a command does not know PUBLIC_URL: %s", link)
	}
}

// answersWithoutDatabase stops the database and looks whether callers get the apis' own answers through the proxy.
func (m machine) answersWithoutDatabase(l *load) {
	m.t.Helper()
	client := http.Client{Timeout: wait.Limit}
	ask := func(method, path, body string) (*http.Response, string, time.Duration) {
		r, err := http.NewRequestWithContext(m.t.Context(), method, l.url+path, strings.NewReader(body))
		if err != nil {
			m.t.Fatal(err)
		}
		for name, value := range map[string]string{"X-Api-Key": l.key, "X-Request-Id": "without-database",
			"Authorization": "Bearer " + l.token, "X-Forwarded-For": "198.51.100.7"} {
			r.Header.Set(name, value)
		}
		began := time.Now()
		answer, err := client.Do(r)
		if err != nil {
			m.t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			m.t.Fatal(err)
		}
		return answer, string(text), time.Since(began)
	}
	m.typed(compose + "stop postgres")
	m.missing("api-1", "api-2")
	for _, path := range []string{"/docs/", "/.well-known/jwks.json"} {
		if answer, text, took := ask(http.MethodGet, path, ""); answer.StatusCode != http.StatusOK || took > longestAnswer {
			m.t.Errorf("GET %s: %d after %v: %q", path, answer.StatusCode, took, text)
		}
	}
	answer, text, took := ask(http.MethodPost, "/api/external-auth/token", "")
	if h := answer.Header; answer.StatusCode != http.StatusServiceUnavailable || h.Get("Retry-After") == "" ||
		h.Get("Content-Type") != "application/problem+json" || h.Get("X-Request-Id") != "without-database" ||
		took > longestRefusal {
		m.t.Errorf("a token: %d after %v, %v: %q", answer.StatusCode, took, h, text)
	}
	// The api reads a body before it needs the database: a bad one is named only if it came through whole.
	body := `{"id": 1, "shop_code": "SP-001", "materials": [], "padding": "` + strings.Repeat("x", 1<<19) + `"}`
	answer, text, took = ask(http.MethodPost, "/api/material-requests", body)
	if answer.StatusCode != http.StatusUnprocessableEntity && answer.StatusCode != http.StatusBadRequest ||
		!strings.Contains(text, "/materials") || took > longestAnswer {
		m.t.Errorf("a request with a fault: %d after %v: %q", answer.StatusCode, took, text)
	}
	logs := m.typed(compose + "logs --no-log-prefix api-1 api-2 | grep without-database | grep token")
	if !strings.Contains(logs, `"client":"198.51.100.7"`) {
		m.t.Errorf("the apis log %s", logs)
	}
	// An api that is gone has the fewest calls, while a caller who sends slowly keeps the other one busy.
	m.typed(compose + "stop api-1")
	m.sendsSlowly(l)
	if answer, text, took := ask(http.MethodGet, "/docs/", ""); answer.StatusCode != http.StatusOK ||
		took > longestAnswer {
		m.t.Errorf("GET /docs/ with one api: %d after %v: %q", answer.StatusCode, took, text)
	}
	m.typed(compose + "start api-1")
	m.typed(compose + "start postgres")
	wait.Until(m.t, "tokens are given again", func() bool {
		answer, _, _ := ask(http.MethodPost, "/api/external-auth/token", "")
		return answer.StatusCode == http.StatusOK
	})
	l.while("the time after that", func() { l.estimated(1) })
}

// sendsSlowly begins a request whose body does not end before the test.
func (m machine) sendsSlowly(l *load) {
	m.t.Helper()
	body, more := io.Pipe()
	m.t.Cleanup(func() { _ = more.Close() })
	r, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, l.url+"/api/material-requests", body)
	if err != nil {
		m.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+l.token)
	go func() {
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
		}
	}()
	if _, err := more.Write([]byte(strings.Repeat(" ", 1<<17))); err != nil {
		m.t.Fatal(err)
	}
}

// missing waits until the proxy has seen that these apis are not ready.
func (m machine) missing(apis ...string) {
	m.t.Helper()
	for _, name := range apis {
		wait.Until(m.t, name+" is not ready", func() bool {
			_, err := m.quietly(m.tree(), "sh", "-c", compose+"exec -T proxy wget -q -O - http://"+name+":9090/readyz")
			return err != nil
		})
	}
}

// knowsCallers sends calls through proxies in front, as scaling.md sets them up, and looks for the callers in the log.
func (m machine) knowsCallers(l *load) {
	m.t.Helper()
	front := strconv.Itoa(queuetest.FreePort(m.t))
	dir := m.t.TempDir()
	block := guide.Fenced(m.t, document("scaling.md"), "TLS", "nginx")[0]
	block = strings.NewReplacer("127.0.0.1:8080", strings.TrimPrefix(l.url, "http://"), "443 ssl",
		front+" ssl").Replace(block)
	site := guide.Fenced(m.t, document("scaling.md"), "TLS", "caddyfile")[0]
	for name, text := range map[string]string{"nginx.conf": "events {}\nhttp {\n" + block + "}\n", "Caddyfile": site} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { // for a container
			m.t.Fatal(err)
		}
	}
	image := regexp.MustCompile(`image: (caddy:\S+)`).FindStringSubmatch(m.run(m.tree(), "cat",
		"deployments/compose.yaml"))[1]
	m.run(dir, "docker", "run", "--rm", "-v", dir+":/etc/caddy:ro", image, "caddy", "validate", "--adapter", "caddyfile",
		"--config", "/etc/caddy/Caddyfile")
	m.run(dir, "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=hub.example", "-days", "2",
		"-out",
		"hub.example.pem", "-keyout", "hub.example.key")
	nginx := strings.TrimSpace(m.run(dir, "docker", "run", "--detach", "--rm", "--network", "host", "-v",
		dir+":/etc/ssl:ro",
		"supplyhub-test/debian", "nginx", "-c", "/etc/ssl/nginx.conf", "-g", "daemon off;"))
	defer func() { _, _ = m.try(dir, "docker", "kill", nginx) }()

	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // its own certificate
	}}
	through := func(name, caller string) (status int, kind string) {
		r, err := l.request("https://127.0.0.1:"+front, l.id.Add(1), name)
		if err != nil {
			m.t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", caller)
		answer, err := client.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, answer.Header.Get("Content-Type")
	}
	wait.Until(m.t, "nginx serves", func() bool { status, _ := through("Shelf", "198.51.100.1"); return status == 201 })
	if status, kind := through(strings.Repeat("a", 3<<19), ""); status != 413 || kind != "application/problem+json" {
		m.t.Errorf("a body that is too large is answered %d %s", status, kind)
	}
	logs := m.typed(compose + "logs --no-log-prefix api-1 api-2 | grep '\"status\":413'")
	if !strings.Contains(logs, `"client":"127.0.0.1"`) {
		m.t.Errorf("nginx was called from 127.0.0.1, the apis log %s", logs)
	}
}
