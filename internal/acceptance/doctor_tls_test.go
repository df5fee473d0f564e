package acceptance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
)

// ownAddress returns an address of this machine that is not a loopback's: to a process it is another host's. Without
// one the test is skipped, and says so.
func ownAddress(t *testing.T) netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr()
		}
	}
	fmt.Fprintf(os.Stderr, "SKIPPED: %s: this machine has no address but the loopback's\n", t.Name())
	t.Skip("no address but the loopback's")
	return netip.Addr{}
}

// front listens at the address, for this machine alone, and forwards to network and target. begin, if not nil, first
// speaks with the client and returns what is read and written from then on.
func front(t *testing.T, at netip.Addr, network, target string, begin func(net.Conn) (net.Conn, error)) string {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				from, err := netip.ParseAddrPort(client.RemoteAddr().String())
				if err != nil || from.Addr().Unmap() != at {
					return
				}
				if begin != nil {
					if client, err = begin(client); err != nil {
						return
					}
				}
				behind, err := net.Dial(network, target)
				if err != nil {
					return
				}
				defer behind.Close()
				go func() { _, _ = io.Copy(behind, client); _ = behind.Close() }()
				_, _ = io.Copy(client, behind)
			}()
		}
	}()
	return l.Addr().String()
}

// certificate makes a certificate for the address; file holds it, to be trusted.
func certificate(t *testing.T, at netip.Addr) (own tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{at.AsSlice()}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// beginTLS answers PostgreSQL's request for TLS, which comes before anything else.
func beginTLS(config *tls.Config) func(net.Conn) (net.Conn, error) {
	return func(c net.Conn) (net.Conn, error) {
		var request [2]uint32
		if err := binary.Read(c, binary.BigEndian, &request); err != nil {
			return nil, err
		}
		if request != [2]uint32{8, 80877103} {
			return nil, fmt.Errorf("it is no SSLRequest: %v", request)
		}
		if _, err := c.Write([]byte("S")); err != nil {
			return nil, err
		}
		return tls.Server(c, config), nil
	}
}

// The network can read what passes in clear.
func TestDoctor_warns_of_what_the_network_can_read(t *testing.T) {
	t.Parallel()
	at := ownAddress(t)
	own, ca := certificate(t, at)
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1})
	address, err := url.Parse(h.Env["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	socket := fmt.Sprintf("%s/.s.PGSQL.%s", query.Get("host"), query.Get("port"))
	database := func(host, mode string) string {
		u := *address
		u.Host, u.RawQuery = host, url.Values{"sslmode": {mode}, "sslrootcert": {ca}}.Encode()
		if mode == "" {
			u.RawQuery = ""
		}
		return u.String()
	}
	near := apptest.NewProxy(t, "unix", socket).Address
	plain := front(t, at, "unix", socket, nil)
	encrypted := front(t, at, "unix", socket, beginTLS(&tls.Config{Certificates: []tls.Certificate{own}}))
	queue := strings.TrimPrefix(h.NATS.URL(), "nats://")
	encryptedQueue := front(t, at, "tcp", strings.TrimPrefix(queuetest.NewWithOptions(t, func(o *server.Options) {
		o.TLS, o.TLSTimeout, o.TLSConfig = true, 5, &tls.Config{Certificates: []tls.Certificate{own}}
	}).URL(), "nats://"), nil)

	everywhere := []string{"api", "worker"}
	for name, test := range map[string]struct {
		binaries      []string
		change        map[string]string
		check, status string
	}{
		"PostgreSQL's socket": {everywhere, nil, "database encryption", "ok"},
		"PostgreSQL on this machine": {everywhere, map[string]string{"DATABASE_URL": database(near, "disable")},
			"database encryption", "ok"},
		"PostgreSQL elsewhere, by default": {everywhere, map[string]string{"DATABASE_URL": database(plain, "")},
			"database encryption", "warning"},
		"PostgreSQL elsewhere, sslmode=disable": {everywhere, map[string]string{"DATABASE_URL": database(plain, "disable")},
			"database encryption", "warning"},
		"PostgreSQL elsewhere, sslmode=prefer": {everywhere, map[string]string{"DATABASE_URL": database(plain, "prefer")},
			"database encryption", "warning"},
		"PostgreSQL elsewhere, sslmode=verify-full": {everywhere,
			map[string]string{"DATABASE_URL": database(encrypted, "verify-full")}, "database encryption", "ok"},
		"a replica elsewhere": {[]string{"api"}, map[string]string{"DATABASE_READ_URL": database(plain, "")},
			"replica encryption", "warning"},
		"a replica elsewhere, sslmode=verify-full": {[]string{"api"},
			map[string]string{"DATABASE_READ_URL": database(encrypted, "verify-full")}, "replica encryption", "ok"},
		"a replica on this machine": {[]string{"api"}, map[string]string{"DATABASE_READ_URL": database(near, "")},
			"replica encryption", "ok"},
		"a replica that is away": {[]string{"api"}, map[string]string{"DATABASE_READ_URL": database("127.0.0.1:1", "")},
			"replica encryption", "broken"},
		"NATS on this machine": {everywhere, nil, "nats encryption", "ok"},
		"NATS elsewhere, nats://": {everywhere, map[string]string{"NATS_URL": "nats://" + front(t, at, "tcp", queue, nil)},
			"nats encryption", "warning"},
		"NATS elsewhere, tls://": {everywhere, map[string]string{"NATS_URL": "tls://" + encryptedQueue, "NATS_CA": ca},
			"nats encryption", "ok"},
		"an api for this machine": {[]string{"api"}, nil, "public address", "ok"},
		"an api for all, without PUBLIC_URL": {[]string{"api"}, map[string]string{"HTTP_ADDR": ":8080"},
			"public address", "warning"},
		"an api for all, http": {[]string{"api"},
			map[string]string{"HTTP_ADDR": ":8080", "PUBLIC_URL": "http://hub.example"}, "public address", "warning"},
		"an api for all, https": {[]string{"api"},
			map[string]string{"HTTP_ADDR": ":8080", "PUBLIC_URL": "https://hub.example"}, "public address", "ok"},
	} {
		for _, binary := range test.binaries {
			t.Run(name+", "+binary, func(t *testing.T) {
				t.Parallel()
				found := doctor(t, h, binary, test.change)
				if status, detail, todo := found.said(t, test.check); status != test.status {
					t.Errorf("%s is %s: %s -> %s", test.check, status, detail, todo)
				}
			})
		}
	}
}
