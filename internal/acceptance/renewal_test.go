package acceptance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
)

// identity is a certificate that is its own authority, in files as cert-manager keeps them: ca.pem, cert.pem, key.pem.
// Servers and clients of the test share it, and a server refuses every client that has another one.
type identity struct {
	dir     string
	current atomic.Pointer[tls.Config]
	met     atomic.Int64 // handshakes with the current one
}

func newIdentity(t *testing.T) *identity {
	i := &identity{dir: t.TempDir()}
	i.renew(t)
	return i
}

func (i *identity) file(name string) string { return filepath.Join(i.dir, name) }

// renew makes the files again, one after the other, each whole; then the servers refuse the former certificate.
func (i *identity) renew(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	former, _ := os.ReadFile(i.file("cert.pem")) // there is none at first
	for name, text := range map[string][]byte{"ca.pem": append(cert, former...), "cert.pem": cert,
		"key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(i.file("new"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(i.file("new"), i.file(name)); err != nil {
			t.Fatal(err)
		}
	}
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(cert)
	i.current.Store(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: known,
		Certificates:     []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		VerifyConnection: func(tls.ConnectionState) error { i.met.Add(1); return nil }})
	i.met.Store(0)
}

// config is a server's, with the certificate of the moment.
func (i *identity) config() *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return i.current.Load(), nil
	}}
}

// socketOf returns the socket of the test's PostgreSQL.
func socketOf(t *testing.T, address string) (*url.URL, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u, fmt.Sprintf("%s/.s.PGSQL.%s", u.Query().Get("host"), u.Query().Get("port"))
}

// Certificates are renewed in their files, twice, while requests come: every one is accepted and estimated, by
// connections that show the new one.
func TestCertificates_are_renewed_under_load_without_a_failed_request(t *testing.T) {
	t.Parallel()
	own := newIdentity(t)
	address, socket := socketOf(t, databasetest.Service(t))
	at := netip.MustParseAddr("127.0.0.1")
	address.Host = front(t, at, "unix", socket, beginTLS(own.config()))
	address.RawQuery = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {own.file("ca.pem")},
		"sslcert": {own.file("cert.pem")}, "sslkey": {own.file("key.pem")}, "pool_max_conn_lifetime": {"1s"},
		"pool_health_check_period": {"200ms"}}.Encode()
	queued := newIdentity(t)
	nats := queuetest.NewWithOptions(t, func(o *server.Options) {
		o.TLS, o.TLSTimeout, o.TLSConfig = true, 5, queued.config()
	})
	link := apptest.NewProxy(t, "tcp", strings.TrimPrefix(nats.URL(), "nats://"))
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1, Env: map[string]string{
		"DATABASE_URL": address.String(), "NATS_URL": "tls://" + link.Address, "NATS_CA": queued.file("ca.pem"),
		"NATS_CERT": queued.file("cert.pem"), "NATS_KEY": queued.file("key.pem")}})
	s := h.Supplier(t)
	processes := []*apptest.Process{h.APIs[0], h.Workers[0]}
	var ids []int64
	load := func(until func() bool) {
		wait.Until(t, "the new certificate is shown while requests come", func() bool {
			ids = append(ids, submit(t, s, nil)) // it fails the test when the answer is another than 201
			return until()
		})
	}
	for range 2 {
		own.renew(t)
		load(func() bool { return own.met.Load() >= 10 }) // connections end by themselves, and new ones are made
		queued.renew(t)
		link.Cut()
		link.Heal()
		load(func() bool {
			for _, p := range processes {
				if status, body := adminGet(t, p, "/readyz"); status != http.StatusOK || !strings.Contains(body, `"nats":"ok"`) {
					return false
				}
			}
			return queued.met.Load() >= 2
		})
	}
	for _, id := range ids {
		becomes(t, s, id, "estimated")
	}
}

// gate lets no connection in while it is shut.
type gate struct{ shut atomic.Bool }

func (g *gate) Check(server.ClientAuthentication) bool { return !g.shut.Load() }

// A password that rotates is one line a minute of each process, and the reason in /readyz, as the server gives it.
func TestCredentials_that_are_refused_while_it_runs_are_one_line_a_minute_and_the_reason(t *testing.T) {
	t.Parallel()
	users := &gate{}
	nats := queuetest.NewWithOptions(t, func(o *server.Options) { o.CustomClientAuthentication = users })
	link := apptest.NewProxy(t, "tcp", strings.TrimPrefix(nats.URL(), "nats://"))
	address, socket := socketOf(t, databasetest.Service(t))
	owner := address.String()
	role := "rotating_" + strings.ReplaceAll(strings.Trim(address.Path, "/"), "-", "_")
	db, err := sql.Open("pgx", owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	execute := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	execute(`CREATE ROLE ` + role + ` SUPERUSER LOGIN`)
	address.User, address.Host = url.User(role), apptest.NewProxy(t, "unix", socket).Address
	address.RawQuery = "pool_max_conn_lifetime=1s"
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1, Env: map[string]string{
		"DATABASE_URL": address.String(), "NATS_URL": "nats://user:of-a-test@" + link.Address}})
	s := h.Supplier(t)
	processes := []*apptest.Process{h.APIs[0], h.Workers[0]}
	says := func(what, reason string) {
		t.Helper()
		for _, p := range processes {
			wait.Until(t, p.Name+" says that "+what, func() bool {
				_, body := adminGet(t, p, "/readyz")
				return strings.Contains(body, reason)
			})
			wait.Until(t, "it is in the log", func() bool { return strings.Contains(p.Log(), reason) })
		}
	}
	users.shut.Store(true)
	link.Cut()
	link.Heal()
	says("NATS refuses it", "authorization violation")
	becomes(t, s, submit(t, s, nil), "estimated") // NATS away stops nothing
	users.shut.Store(false)
	execute(`ALTER ROLE ` + role + ` NOLOGIN`)
	says("PostgreSQL refuses it", `is not permitted to log in`)
	execute(`ALTER ROLE ` + role + ` LOGIN`)
	for _, p := range processes {
		wait.Until(t, p.Name+" is well again", func() bool {
			status, body := adminGet(t, p, "/readyz")
			return status == http.StatusOK && strings.Contains(body, `"nats":"ok"`) && strings.Contains(body, `"database":"ok"`)
		})
		for _, reason := range []string{"authorization violation", "is not permitted to log in"} {
			lines := 0
			for line := range strings.Lines(p.Log()) {
				if strings.Contains(line, `"WARN"`) && strings.Contains(line, reason) {
					lines++
				}
			}
			if lines < 1 || lines > 4 { // this test takes some minutes at most
				t.Errorf("%s says %d times that %s", p.Name, lines, reason)
			}
		}
	}
	becomes(t, s, submit(t, s, nil), "estimated")
}
