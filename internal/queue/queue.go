// Package queue carries messages to workers through JetStream: inside the process or on NATS servers, by the same
// client. The database has all work that is due; a message only makes it begin at once. So each message may get lost,
// alone or with the whole store, and costs a second. Only this package knows NATS; it knows no feature.
package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus"
)

// A Queue is one connection. Several things run on it and know of each other by its fields alone: the goroutine that
// keeps the stream (keep.go), the one that publishes (publish.go), Consume in a worker, and the callbacks of the
// client. Each keeps its own trouble (health.go). NATS may be away at any time, from the start on; nothing here waits
// for it but Consume.

// Names on the server; operators meet them in the permissions of NATS users.
const (
	streamName = "MR"  // unless Config.Stream says otherwise
	root       = "mr." // of every subject here; on the server it is the stream's name in small letters
)

const (
	defaultMaxBytes = 1 << 30
	maxMessages     = 1_000_000

	connectTimeout = 2 * time.Second
	reconnectWait  = 500 * time.Millisecond
	pingInterval   = 10 * time.Second // two of them unanswered: the connection is dead
	flushTimeout   = 2 * time.Second
)

// Config says where the queue is.
type Config struct {
	// nats://…, several separated by commas; empty: a server inside this process that keeps its files in Dir
	URL       string
	Creds     string // NATS credentials file; may be empty
	NKey      string // file of an nkey's seed; may be empty
	CA        string // file of the certificates that the servers' are checked by; empty: the system's
	Cert, Key string // files of a client certificate; may be empty
	Stream    string // name of the stream, and of the root of its subjects; empty: streamName
	Name      string // this process's role, in the connection's name and inbox prefix (_INBOX_<name>); empty: supplyhub
	Replicas  int    // of the stream; 0 means 1
	Dir       string // of the server inside this process
	// what the stream belongs to, in its metadata: that of another one is refused; empty: any stream is ours
	Installation string
	Log          *slog.Logger
	Registerer   prometheus.Registerer // nil: no metrics

	MaxBytes int64 // of all messages; 0 means 1 GiB. A full queue drops the oldest
}

// Queue is a connection to the stream. Each of several on one server may read all of it.
type Queue struct {
	cfg        Config
	log        *slog.Logger
	metrics    *metrics
	embedded   Server // nil when the servers are outside
	nc         *nats.Conn
	connection atomic.Pointer[nats.Conn] // the same, for what may be called before it is there
	js         jetstream.JetStream

	link     *trouble     // why no server is reached, or why the one that is lets us not in
	reports  *trouble     // what the client reports besides
	ours     atomic.Bool  // the stream was looked at since the connection was made
	found    bool         // it was there at the last look; only the goroutine of keep.go uses it
	store    *trouble     // why there is no stream
	unread   *trouble     // why its messages cannot be read
	refused  *trouble     // why nothing that is published is taken
	failing  atomic.Int64 // since when that is so, in Unix nanoseconds; 0: it is not
	rights   *trouble     // what may not be published
	deaf     *trouble     // what may not be subscribed to
	reached  atomic.Bool  // a server is
	outgoing chan *nats.Msg
	stop     context.CancelFunc
	stopped  <-chan struct{}
	running  sync.WaitGroup
	closing  sync.Once
}

// Server is one inside the process.
type Server interface {
	nats.InProcessConnProvider
	Stop() error
}

// starter starts a server over the files in dir.
type starter func(dir string, maxBytes int64, log *slog.Logger) (Server, error)

var inProcess atomic.Pointer[starter]

// Embed makes the server known that runs inside the process; internal/queue/embedded calls it.
func Embed(start func(dir string, maxBytes int64, log *slog.Logger) (Server, error)) {
	inProcess.Store((*starter)(&start))
}

// Open connects to the servers outside, or starts the one inside the process when there is no URL. Those outside may be
// unavailable: the connection and the stream come into being as soon as they can, and again whenever they are gone.
func Open(ctx context.Context, cfg Config) (*Queue, error) {
	q := newQueue(cfg)
	if err := q.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open queue: %w", err), q.release())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	q.stop, q.stopped = stop, running.Done()
	q.running.Go(func() { q.reconcileLoop(running) })
	q.running.Go(q.publishOutgoing)
	return q, nil
}

// newQueue returns one that is not connected.
func newQueue(cfg Config) *Queue {
	cfg.Name, cfg.Stream = cmp.Or(cfg.Name, "supplyhub"), cmp.Or(cfg.Stream, streamName)
	cfg.Replicas, cfg.MaxBytes = max(cfg.Replicas, 1), cmp.Or(cfg.MaxBytes, defaultMaxBytes)
	const lacking = "the NATS user lacks a permission, trying on"
	of := func(what string) *trouble { return &trouble{what: what, log: cfg.Log} }
	return &Queue{cfg: cfg, log: cfg.Log, outgoing: make(chan *nats.Msg, publishBuffer),
		link:    &trouble{what: "queue cannot be connected, trying on", log: cfg.Log.With("servers", shown(cfg.URL))},
		reports: of("queue reports an error"),
		store:   of("the queue's stream cannot be made, trying on"),
		unread:  of("the queue's messages cannot be read, trying on"),
		refused: of("the queue takes no messages, workers find the work a second later"),
		rights:  of(lacking), deaf: of(lacking),
	}
}

// open connects, or starts the server inside the process and connects to that. A server outside that is away is no
// error: the client goes on trying.
func (q *Queue) open() (err error) {
	q.metrics = newMetrics(q)
	options, err := q.options()
	if err != nil {
		return err
	}
	if q.cfg.URL == "" {
		start := inProcess.Load()
		if start == nil {
			return errors.New("this program has no NATS server: set NATS_URL")
		}
		if q.embedded, err = (*start)(q.cfg.Dir, q.cfg.MaxBytes, q.log); err != nil {
			return err
		}
		options = append(options, nats.InProcessServer(q.embedded))
	}
	if q.nc, err = nats.Connect(q.cfg.URL, options...); err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	q.connection.Store(q.nc)
	q.reached.Store(q.nc.IsConnected()) // connected comes a little later
	q.js, err = jetstream.New(q.nc,
		jetstream.WithPublishAsyncMaxPending(publishWindow),
		jetstream.WithPublishAsyncTimeout(publishTimeout),
		jetstream.WithPublishAsyncAckHandler(func(jetstream.JetStream, *nats.Msg, *jetstream.PubAck) {
			q.published()
		}),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { q.publishFailed(err) }),
	)
	return err
}

// options returns how the connection behaves: it never gives up, keeps nothing to be sent later, and reports each of
// its states to the troubles.
func (q *Queue) options() ([]nats.Option, error) {
	options := []nats.Option{
		nats.Name("supplyhub " + q.cfg.Name),
		nats.CustomInboxPrefix("_INBOX_" + q.cfg.Name),
		nats.Timeout(connectTimeout),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // permissions may be repaired while we run
		nats.ReconnectWait(reconnectWait),
		nats.PingInterval(pingInterval),
		nats.ReconnectBufSize(-1), // of what cannot be sent, workers find the work in the database
		nats.ConnectHandler(q.connected),
		nats.ReconnectHandler(q.connected),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			q.reached.Store(false)
			q.ours.Store(false) // it may be another server that is reached next
			q.unlinked(err)
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { q.unlinked(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			switch {
			case errors.Is(err, nats.ErrPermissionViolation):
				q.deny(err)
			case refusesLogin(err):
				q.link.set(err)
			default:
				q.reports.set(err)
			}
		}),
	}
	if q.cfg.Creds != "" {
		options = append(options, nats.UserCredentials(q.cfg.Creds))
	}
	if q.cfg.CA != "" {
		options = append(options, nats.RootCAs(q.cfg.CA))
	}
	if q.cfg.Cert != "" {
		options = append(options, nats.ClientCert(q.cfg.Cert, q.cfg.Key))
	}
	if q.cfg.NKey != "" {
		user, _, err := signed(q.cfg.NKey, nil)
		if err != nil {
			return nil, err
		}
		options = append(options, nats.Nkey(user, q.sign))
	}
	return options, nil
}

// sign signs for the user of the seed that the file holds now. The client calls it under its lock, and has said by then
// which user it is; the next try says the new one.
func (q *Queue) sign(nonce []byte) ([]byte, error) {
	user, signature, err := signed(q.cfg.NKey, nonce)
	if nc := q.connection.Load(); nc != nil && err == nil {
		nc.Opts.Nkey = user
	}
	return signature, err
}

// signed returns the user of the seed in a file, and the user's signature.
func signed(file string, nonce []byte) (user string, signature []byte, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", nil, fmt.Errorf("read the nkey's seed: %w", err)
	}
	key, err := nkeys.ParseDecoratedNKey(content)
	if err != nil {
		return "", nil, fmt.Errorf("read the nkey's seed: %w", err)
	}
	defer key.Wipe()
	if user, err = key.PublicKey(); err != nil {
		return "", nil, fmt.Errorf("read the nkey's user: %w", err)
	}
	signature, err = key.Sign(nonce)
	return user, signature, err
}

// shown returns the servers' addresses without passwords.
func shown(servers string) string {
	list := strings.Split(servers, ",")
	for i, server := range list {
		if u, err := url.Parse(strings.TrimSpace(server)); err == nil {
			list[i] = u.Redacted()
		}
	}
	return strings.Join(list, ",")
}

// connected is called when a server was reached, first or again. It may be one that knows nothing of our stream.
func (q *Queue) connected(nc *nats.Conn) {
	server := nc.ConnectedUrlRedacted()
	if q.embedded != nil {
		server = "in this process" // it listens nowhere
	}
	q.log.Info("queue is connected", "server", server)
	q.reached.Store(!nc.IsClosed()) // the client calls this from a goroutine of its own
	if version := nc.ConnectedServerVersion(); Untested(version) {
		q.log.Warn("the service is not tested with a NATS as old as this", "version", version, "oldest", OldestNATS)
	}
	q.link.clear()
	q.rights.clear()
	q.deaf.clear()
}

// Connected reports whether a server is reached right now. It does not ask the client, which answers nothing for
// seconds while it connects to a server that is silent.
func (q *Queue) Connected() bool { return q.reached.Load() }

// Close waits a moment for publishes under way and releases everything. Consume must have ended before.
func (q *Queue) Close() {
	q.closing.Do(func() {
		q.stop()
		q.running.Wait()
		if q.Connected() {
			select {
			case <-q.js.PublishAsyncComplete():
			case <-time.After(flushTimeout):
			}
		}
		if err := q.release(); err != nil {
			q.log.Error("close queue failed", "error", err)
		}
	})
}

// release closes the connection and, inside the process, the server.
func (q *Queue) release() error {
	if q.nc != nil {
		q.nc.Close()
	}
	q.reached.Store(false)
	if q.embedded != nil {
		return q.embedded.Stop()
	}
	return nil
}

// OldestNATS is the oldest server that the service is tested with.
const OldestNATS = "2.10"

// Untested reports whether a version of NATS is older than that.
func Untested(version string) bool {
	var of, oldest [2]int
	_, _ = fmt.Sscanf(OldestNATS, "%d.%d", &oldest[0], &oldest[1]) // it is ours
	_, err := fmt.Sscanf(version, "%d.%d", &of[0], &of[1])
	return err == nil && slices.Compare(of[:], oldest[:]) < 0
}
