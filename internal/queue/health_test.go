package queue_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/queue"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
)

// lines is a log that a test reads while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// makeStream makes a stream as another application would.
func makeStream(t *testing.T, url string, config jetstream.StreamConfig) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// ill is a reason why work does not travel, and the line of the log that has it.
type ill struct {
	config func(t *testing.T) queue.Config
	why    string
	line   string
}

// denying is a user to whom the server denies the subjects, to publish and to subscribe to.
func denying(subjects ...string) ill {
	return ill{func(t *testing.T) queue.Config {
		t.Helper()
		denied := &server.SubjectPermission{Deny: subjects}
		users := []*server.User{{Username: "a", Password: "b",
			Permissions: &server.Permissions{Publish: denied, Subscribe: denied}}}
		address := queuetest.NewWithOptions(t, func(o *server.Options) { o.Users = users }).URL()
		return queue.Config{URL: strings.Replace(address, "nats://", "nats://a:b@", 1)}
	}, "lacks a permission", "lacks a permission"}
}

func TestHealth_says_why_work_does_not_travel_and_the_log_says_it_once(t *testing.T) {
	t.Parallel()
	users := func(o *server.Options) { o.Users = []*server.User{{Username: "a", Password: "b"}} }
	cases := map[string]ill{
		"nothing listens": {func(*testing.T) queue.Config { return queue.Config{URL: "nats://127.0.0.1:1"} },
			"connection refused", "queue cannot be connected"},
		"unknown name": {func(*testing.T) queue.Config { return queue.Config{URL: "nats://nowhere.invalid:4222"} },
			"nowhere.invalid", "queue cannot be connected"},
		"wrong password": {func(t *testing.T) queue.Config {
			t.Helper()
			return queue.Config{URL: queuetest.NewWithOptions(t, users).URL()}
		}, "Authorization Violation", "queue cannot be connected"},
		"no JetStream": {func(t *testing.T) queue.Config {
			t.Helper()
			return queue.Config{URL: queuetest.NewWithOptions(t, func(o *server.Options) { o.JetStream = false }).URL()}
		}, "JetStream is not enabled", "cannot be made"},
		"small store": {func(t *testing.T) queue.Config {
			t.Helper()
			file := filepath.Join(t.TempDir(), "small.conf") // servers before 2.12 overlook what is set in code
			if err := os.WriteFile(file, []byte("jetstream: {max_file_store: 1MB}"), 0o600); err != nil {
				t.Fatal(err)
			}
			return queue.Config{URL: queuetest.NewWithConfig(t, file).URL()}
		}, "less storage than NATS_MAX_BYTES", "cannot be made"},
		"too few servers": {func(t *testing.T) queue.Config {
			t.Helper()
			return queue.Config{URL: queuetest.New(t).URL(), Replicas: 3}
		}, "too few servers for NATS_REPLICAS=3", "cannot be made"},
		"a stream of another application": {func(t *testing.T) queue.Config {
			t.Helper()
			url := queuetest.New(t).URL()
			makeStream(t, url, jetstream.StreamConfig{Name: "MR", Subjects: []string{"mr.>"}})
			return queue.Config{URL: url}
		}, "made by another program: its maximum age is 0s, not 1m0s", "cannot be made"},
		"a work queue of another application": {func(t *testing.T) queue.Config {
			t.Helper()
			url := queuetest.New(t).URL()
			makeStream(t, url, jetstream.StreamConfig{Name: "MR", Subjects: []string{"mr.>"},
				Retention: jetstream.WorkQueuePolicy})
			return queue.Config{URL: url}
		}, "made by another program: its retention is WorkQueue", "cannot be made"},
		"subjects of another application": {func(t *testing.T) queue.Config {
			t.Helper()
			url := queuetest.New(t).URL()
			makeStream(t, url, jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"mr.>"}})
			return queue.Config{URL: url}
		}, "another stream has the subjects mr.>", "cannot be made"},
		"no permission to look at the stream":   denying("$JS.API.STREAM.INFO.MR"),
		"no permission to make the stream":      denying("$JS.API.STREAM.CREATE.MR"),
		"no permission to read what comes back": denying("_INBOX_supplyhub.>"),
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := c.config(t)
			var log lines
			cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
			q, err := queue.Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(q.Close)
			wait.Until(t, "the reason is there", func() bool {
				err := q.Health()
				return err != nil &&
					strings.Contains(err.Error(), c.why)
			})
			wait.Until(t, "the log has the reason",
				func() bool { return log.count(c.line) == 1 && log.count("level=WARN") >= 1 })
			if n := log.count("level=WARN"); strings.Contains(c.why, "permission") && n != 1 {
				t.Errorf("%d lines", n)
			}
		})
	}
}

func TestHealth_of_a_worker_that_may_not_read_says_so_once(t *testing.T) {
	t.Parallel()
	for name, subject := range map[string]string{
		"no permission to make a consumer": "$JS.API.CONSUMER.CREATE.MR.",
		"no permission to read it":         "$JS.API.CONSUMER.MSG.NEXT.MR.",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log lines
			cfg := denying(subject + ">").config(t)
			cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
			q, err := queue.Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(q.Close)
			var c collector
			consume(t, q, c.take, "mr.work.1")
			wait.Until(t, "it says what it may not", func() bool {
				err := q.Health()
				return err != nil && strings.Contains(err.Error(), subject)
			})
			if n := log.count("level=WARN"); n != 1 {
				t.Errorf("%d lines", n)
			}
			found, err := queue.Examine(t.Context(), cfg, true)
			if err != nil || !found.Lacks || !strings.Contains(found.Messages.Error(), subject) {
				t.Errorf("the doctor says %+v, %v", found, err)
			}
		})
	}
}

func TestHealth_of_a_worker_that_cannot_read_says_why_and_is_nil_once_it_can(t *testing.T) {
	t.Parallel()
	url := queuetest.New(t).URL()
	// the one consumer that this stream may have belongs to another program
	makeStream(t, url, jetstream.StreamConfig{Name: "MR", Subjects: []string{"mr.>"}, MaxAge: time.Minute,
		MaxConsumers: 1})
	js := operator(t, url)
	other := jetstream.ConsumerConfig{Durable: "other"}
	if _, err := js.CreateConsumer(t.Context(), "MR", other); err != nil {
		t.Fatal(err)
	}
	var log lines
	cfg := queue.Config{URL: url, Log: slog.New(slog.NewTextHandler(&log, nil))}
	q, err := queue.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	var c collector
	consume(t, q, c.take, "mr.work.1")
	const why = "too few consumers"
	wait.Until(t, "it says why", func() bool { return q.Health() != nil && strings.Contains(q.Health().Error(), why) })
	if log.count(why) != 1 {
		t.Errorf("it is logged %d times", log.count(why))
	}
	if found, err := queue.Examine(t.Context(), cfg, true); err != nil ||
		!strings.Contains(fmt.Sprint(found.Messages), why) {
		t.Errorf("the doctor says %+v, %v", found, err)
	}
	if err := js.DeleteConsumer(t.Context(), "MR", other.Durable); err != nil {
		t.Fatal(err)
	}
	arrives(t, q, &c, "mr.work.1")
	wait.Until(t, "it is well", func() bool { return q.Health() == nil })
}

func TestRights_of_each_binary_are_all_that_it_needs(t *testing.T) {
	t.Parallel()
	server := queuetest.NewWithConfig(t, filepath.Join("..", "..", "deployments", "nats-users.conf"), "api", "worker")
	config := map[string]queue.Config{}
	opened := map[string]*queue.Queue{}
	for _, name := range []string{"api", "worker"} {
		config[name] = queue.Config{URL: server.URLOf(name), Name: name, Installation: "ours",
			Log: slog.New(slog.DiscardHandler)}
		opened[name] = open(t, config[name])
	}
	ready(t, opened["worker"])
	var c collector
	consume(t, opened["worker"], c.take, "mr.work.1", "mr.work.2")
	for range 2 {
		arrives(t, opened["api"], &c, "mr.work.1")
		arrives(t, opened["worker"], &c, "mr.work.2")
		server.Wipe() // each makes the stream again
	}
	for name, cfg := range config {
		var doctor error
		if !wait.Within(wait.Limit, func() bool { // the wiped stream is made again
			found, err := queue.Examine(t.Context(), cfg, name == "worker")
			doctor = errors.Join(err, found.Stream, found.Messages)
			return doctor == nil && opened[name].Health() == nil
		}) {
			t.Errorf("the %s says %v, its doctor %v", name, opened[name].Health(), doctor)
		}
	}
}

func TestHealth_is_nil_again_when_the_cause_is_gone(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	q := open(t, queue.Config{URL: server.URL()})
	wait.Until(t, "it is well", func() bool { return q.Health() == nil })
	server.Stop()
	wait.Until(t, "it is not", func() bool { return q.Health() != nil })
	server.Restart()
	wait.Until(t, "it is well again", func() bool { return q.Health() == nil })
}

func TestStream_keeps_two_installations_in_one_account_apart(t *testing.T) {
	t.Parallel()
	url := queuetest.New(t).URL()
	first, second := open(t, queue.Config{URL: url}), open(t, queue.Config{URL: url, Stream: "MR_B"})
	ready(t, first)
	ready(t, second)
	var a, b collector
	consume(t, first, a.take, "mr.work.1", "mr.work.2")
	consume(t, second, b.take, "mr.work.1", "mr.work.2")
	arrives(t, first, &a, "mr.work.1")
	arrives(t, second, &b, "mr.work.2")
	for _, body := range a.bodies() {
		if b.count("mr.work.1", body) > 0 {
			t.Error("one has the other's messages")
		}
	}
}

func TestOpen_by_nkey_whose_seed_is_replaced_while_it_runs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "seed")
	var public string
	replace := func() {
		user, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		seed, err := user.Seed()
		if err != nil {
			t.Fatal(err)
		}
		if public, err = user.PublicKey(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, seed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace()
	server := queuetest.NewWithOptions(t, func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} })
	q := open(t, queue.Config{URL: server.URL(), NKey: file})
	wait.Until(t, "it is well", func() bool { return q.Health() == nil })
	server.Stop()
	replace()
	server.Restart()
	wait.Until(t, "it is well as the new user", func() bool { return q.Health() == nil })
}

func TestOpen_with_a_CA_and_a_client_certificate_of_its_own(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificates(t, dir)
	pool := x509.NewCertPool()
	content, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil || !pool.AppendCertsFromPEM(content) {
		t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	url := queuetest.NewWithOptions(t, func(o *server.Options) {
		o.TLS, o.TLSTimeout, o.TLSVerify = true, 5, true
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool,
			ClientAuth: tls.RequireAndVerifyClientCert,
			// by 1.3 a client may see its connection closed before it reads why
			MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12}
	}).URL()
	right := open(t, queue.Config{URL: url, CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"),
		Key: filepath.Join(dir, "key.pem")})
	wait.Until(t, "it is well", func() bool { return right.Health() == nil })
	for why, cfg := range map[string]queue.Config{
		"certificate signed by unknown authority": {URL: url},
		// the client has no certificate
		"tls: handshake failure": {URL: url, CA: filepath.Join(dir, "ca.pem")},
	} {
		q := open(t, cfg)
		wait.Until(t, "it says "+why, func() bool {
			err := q.Health()
			return err != nil &&
				strings.Contains(err.Error(), why)
		})
	}
}

// certificates writes a CA's certificate, and one for 127.0.0.1 with its key.
func certificates(t *testing.T, dir string) {
	t.Helper()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	caKey, key := ecKey(t), ecKey(t)
	write(t, filepath.Join(dir, "ca.pem"), "CERTIFICATE")(x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(),
		caKey))
	write(t, filepath.Join(dir, "cert.pem"),
		"CERTIFICATE")(x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey))
	write(t, filepath.Join(dir, "key.pem"), "EC PRIVATE KEY")(x509.MarshalECPrivateKey(key))
}

func ecKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func write(t *testing.T, path, kind string) func([]byte, error) {
	t.Helper()
	return func(der []byte, err error) {
		t.Helper()
		if err == nil {
			err = os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
