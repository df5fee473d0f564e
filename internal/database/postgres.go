package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/supplyhub/supplyhub/internal/sleep"
)

// The pools of PostgreSQL: one that writes, one for each Rows. Both give their connections up together (reset) when
// one of them meets a server that has become read-only, or that answers no ping: the address may name several hosts,
// and the next connections look for the primary among them.
//
// When the server has no connection left (53300), the process makes do with the fewest, four, for a minute after the
// last refusal. All processes do that, so that each of them gets these.

const (
	writers      = 16 // connections, when the address does not say pool_max_conns
	readers      = 8
	fewest       = 4                // connections that a process needs to get its work done
	leastRead    = 2                // of these: one for pages, while a view of others holds the other one
	readerShare  = 4                // of pool_max_conns, one in so many connections is a reader's
	connectWait  = 15 * time.Second // for a host's answer, when the address does not say connect_timeout: it may be busy
	nextHost     = 2 * time.Second  // the same where there is another host
	closeWait    = 2 * time.Second  // for the server to learn that a connection ends
	pingAfter    = time.Second      // idle
	idleTime     = 20 * time.Second // after which a connection is let go
	idleCheck    = 5 * time.Second
	codeReadOnly = "25006"
)

// server is how PostgreSQL is reached.
type server struct {
	config  Config
	hosts   *hosts
	session *session
	write   *pgxpool.Pool
	readers int32 // connections of each reader
	others  int32 // how many read views of others at once
	few     int32 // of the fewest connections, the readers'

	// Behind a pooler, whose own default is 20 for a user, a process takes the fewest unless the address says more.
	limited bool // the address says it

	limit func(connections int) // of the writers that are used at once; 0: as many as the pool has
	tight atomic.Bool           // the server has no connection left; set by any connection's error, ended by loosen

	mu     sync.Mutex  // of what follows: connections, Rows and the timer come to it
	loosen *time.Timer // calls widen
	reads  []*Rows
}

// openPostgres makes the writing pool and what is over it: database/sql, which gorm needs, gives transactions their
// isolation level through conn and keeps no connection itself. Nothing is connected yet but for the clock, which
// tries once.
func openPostgres(ctx context.Context, config Config) (*DB, error) {
	cfg, err := parse("DATABASE_URL", config.URL)
	if err != nil {
		return nil, err
	}
	s := &server{config: config, hosts: &hosts{found: map[string][]string{}, silent: map[string]time.Time{}}}
	cfg.MaxConns, s.readers, s.others = share(ctx, config, cfg.MaxConns)
	if !config.NoReaders {
		s.few = leastRead
	}
	s.session = s.configure(cfg, config.URL, settings[config.Profile], "supplyhub")
	cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	if s.write, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	keeps := func() bool { return s.keeps(s.session, s.write, s.fewWriters()) }
	sqlDB := sql.OpenDB(connector{stdlib.GetPoolConnector(s.write), s.session, keeps})
	sqlDB.SetMaxIdleConns(0) // the pool below keeps them
	s.limit = sqlDB.SetMaxOpenConns
	s.loosen = time.AfterFunc(fullTime, s.widen)
	if s.limited = parameter(config.URL, "pool_max_conns") != ""; !s.limited {
		s.session.found = func() { s.limit(s.fewWriters()) }
	}
	refused := &refusals{log: config.Log}
	g, err := openGorm(postgres.Dialector{Config: &postgres.Config{Conn: sqlDB}}, refused)
	if err != nil {
		s.write.Close()
		return nil, fmt.Errorf("open database: %w", Translate(err))
	}
	closeAll := func() error {
		s.loosen.Stop()
		err := sqlDB.Close()
		s.write.Close()
		return err
	}
	db := DB{Dialect: Dialect{Postgres, &s.session.spread}, write: g, read: g, pool: sqlDB, server: s, refusals: refused,
		close: closeAll, log: config.Log}
	return db.follow(ctx, serverClock(sqlDB)), nil
}

// CheckURL reports what is wrong with an address of PostgreSQL, without the address: it may hold a password.
func CheckURL(address string) error {
	if _, err := pgxpool.ParseConfig(address); err != nil {
		return errors.New("must be a PostgreSQL address, and the files that it names must be readable")
	}
	return nil
}

// parse reads an address; pgx's own text may quote it with its password. PostgreSQL reads the names of run-time
// parameters in any letter case (TimeZone): here they are in small letters, so that each is there once.
func parse(variable, address string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, errors.New("open database: " + variable + " is not a valid PostgreSQL address")
	}
	params := cfg.ConnConfig.RuntimeParams
	cfg.ConnConfig.RuntimeParams = make(map[string]string, len(params))
	for _, name := range slices.Sorted(maps.Keys(params)) { // of one that is there twice, the same one at each start
		cfg.ConnConfig.RuntimeParams[strings.ToLower(name)] = params[name]
	}
	return cfg, nil
}

// readAgain takes what the files that the address names hold now: certificates and keys that were renewed, another
// password. While they cannot be read, as in the middle of a renewal, it is what they held before.
func readAgain(address string, read *atomic.Pointer[pgxpool.Config], cfg *pgx.ConnConfig) {
	if now, err := pgxpool.ParseConfig(address); err == nil {
		read.Store(now)
	}
	if last := read.Load(); last != nil {
		n := last.ConnConfig.Copy()
		cfg.User, cfg.Password, cfg.TLSConfig, cfg.Fallbacks = n.User, n.Password, n.TLSConfig, n.Fallbacks
	}
}

// parameter returns what the address says, empty when it does not.
func parameter(address, name string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Query().Get(name)
}

// share divides pool_max_conns, which holds for the whole process: how many connections write, how many a reader has,
// and how many read views of others at once. A quarter of all read, at most eight, and a quarter of those, but one at
// least, views of others: not a reader's last one. Where these have a login of their own they have as many connections
// of their own.
func share(ctx context.Context, config Config, limit int32) (write, read, others int32) {
	write, read = writers, readers
	if parameter(config.URL, "pool_max_conns") != "" {
		if limit < fewest {
			config.Log.WarnContext(ctx, "pool_max_conns is taken as the fewest connections that the service works with",
				"pool_max_conns", limit, "taken", fewest)
			limit = fewest
		}
		if config.NoReaders {
			return limit, 1, 1 // a reader that is made for a moment, to look at something
		}
		read = min(limit/readerShare, readers)
		write = limit - read
	}
	others = max(read/readerShare, 1)
	switch {
	case config.OthersURL == "":
		read, write = max(read, leastRead), write-max(leastRead-read, 0)
	case read >= readerShare:
		read -= others
	default:
		write -= others
	}
	return write, read, others
}

// fewWriters returns how many of the fewest connections write.
func (s *server) fewWriters() int { return fewest - int(s.few) }

// keeps reports whether a released connection stays open. Behind a pooler, a command keeps none: in session mode,
// commands that keep one while they wait for a second stop each other when the pooler's run out. A process that serves
// keeps its share and not what it took before it knew of the pooler.
func (s *server) keeps(session *session, pool *pgxpool.Pool, share int) bool {
	if !session.pooler() {
		return !s.tight.Load() || int(pool.Stat().TotalConns()) <= share
	}
	return s.config.Profile != Maintenance && (s.limited || int(pool.Stat().TotalConns()) <= share)
}

// several reports whether the address has more than one host.
func several(cfg *pgx.ConnConfig) bool {
	return slices.ContainsFunc(cfg.Fallbacks,
		func(f *pgconn.FallbackConfig) bool { return f.Host != cfg.Host || f.Port != cfg.Port })
}

// configure sets what the writers' and the readers' pools have in common.
func (s *server) configure(cfg *pgxpool.Config, address string, wanted []setting, name string) *session {
	wait, answer := connectWait, answerOnly
	if several(cfg.ConnConfig) {
		wait, answer = nextHost, answerNext
	}
	if parameter(address, "connect_timeout") == "" {
		cfg.ConnConfig.ConnectTimeout = wait
	}
	if parameter(address, "pool_max_conn_idle_time") == "" {
		cfg.MaxConnIdleTime = idleTime
	}
	if parameter(address, "pool_health_check_period") == "" {
		cfg.HealthCheckPeriod = idleCheck
	}
	if _, set := cfg.ConnConfig.RuntimeParams["application_name"]; !set {
		cfg.ConnConfig.RuntimeParams["application_name"] = name
	}
	session := newSession(wanted, cfg.ConnConfig.RuntimeParams, parameter(address, "default_query_exec_mode") == "")
	read := atomic.Pointer[pgxpool.Config]{}
	cfg.BeforeConnect = func(ctx context.Context, cfg *pgx.ConnConfig) error {
		readAgain(address, &read, cfg)
		s.hosts.order(cfg)
		err := session.prepare(ctx, cfg)
		s.hosts.order(cfg) // its probe may have met a silent one
		return err
	}
	cfg.AfterConnect = letIn
	cfg.ShouldPing = func(ctx context.Context, p pgxpool.ShouldPingParams) bool { return s.shouldPing(ctx, p, wait) }
	if s.config.Profile == Serving {
		cfg.ConnConfig.DialFunc = s.answering(cfg.ConnConfig.DialFunc, answer)
		cfg.ConnConfig.LookupFunc = s.hosts.lookup(cfg.ConnConfig.LookupFunc)
	}
	cfg.ConnConfig.OnPgError = s.keep
	return session
}

// shouldPing reports whether the pool is to ping a connection before use. It pings one that was idle itself, for a
// moment only, and closes all others with it: behind a server that hangs each would take as long. A connection that
// is closed here fails the pool's own ping.
func (s *server) shouldPing(ctx context.Context, p pgxpool.ShouldPingParams, wait time.Duration) bool {
	if p.IdleDuration < pingAfter {
		return false
	}
	ping, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := p.Conn.Ping(ping); err == nil {
		return false
	}
	if ctx.Err() == nil {
		if b := boundedOf(p.Conn.PgConn()); b != nil && ping.Err() != nil {
			b.silent()
		}
		s.reset()
	}
	return true
}

// keep reports whether a connection stays open after an error. One that turned out to be read-only does not, and no
// other either: the next ones look for the primary among the address's hosts.
func (s *server) keep(conn *pgconn.PgConn, pg *pgconn.PgError) bool {
	switch pg.Code {
	case codeReadOnly:
		if !isolated(conn) {
			s.reset()
		}
		return false
	case codeFull:
		if !isolated(conn) {
			s.tighten()
		}
	}
	return !strings.EqualFold(pg.Severity, "FATAL")
}

// reset closes all connections: idle ones now, the others when they are released.
func (s *server) reset() {
	s.write.Reset()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.reads {
		r.pool.Reset()
	}
}

// ping reports whether the server takes changes.
func (s *server) ping(ctx context.Context) error {
	var readOnly string
	if err := s.write.QueryRow(ctx, "SHOW transaction_read_only").Scan(&readOnly); err != nil {
		return err
	}
	if readOnly != "off" {
		s.reset()
		return &pgconn.PgError{Severity: "ERROR", Code: codeReadOnly, Message: "the server is read-only"}
	}
	return nil
}

// openGorm opens gorm without its own transactions and its ping, with the log and the translation of errors of this
// package.
func openGorm(dialector SavingDialector, refusals *refusals) (*gorm.DB, error) {
	return gorm.Open(translating{dialector, refusals}, &gorm.Config{
		SkipDefaultTransaction: true,
		TranslateError:         true,
		DisableAutomaticPing:   true,
		Logger:                 &statements{logger.Discard, refusals.log},
	})
}

const (
	codeFull     = "53300"
	codeDiskFull = "53100"
	codeIOError  = "58030"
	fullTime     = time.Minute // after the last refusal: so long a process makes do with the fewest connections
	startTime    = time.Minute // for which a process that starts waits for a busy server
	startRetry   = time.Second
)

// tighten lets the process make do with the fewest connections, as its server has none left: it gives up the others, so
// that other processes get theirs.
func (s *server) tighten() {
	s.mu.Lock()
	before := s.tight.Swap(true)
	s.loosen.Reset(fullTime)
	s.mu.Unlock()
	if before {
		return
	}
	s.limit(s.fewWriters())
	s.config.Log.Warn("the database server has no connection left: this process makes do with the fewest", "connections",
		fewest)
	s.reset()
}

// widen ends tighten.
func (s *server) widen() {
	s.tight.Store(false)
	if s.limited || !s.session.pooler() {
		s.limit(0)
	}
}

// patiently repeats fn, for a minute, while the database is busy: other processes let their connections go when they
// are idle, and a server is busy for a moment when everything starts.
func patiently(ctx context.Context, log *slog.Logger, fn func() error) error {
	patience, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for try := 1; ; try++ {
		err := fn()
		if !busy(err) {
			return err
		}
		if try == 1 {
			log.WarnContext(ctx, "waiting for the database: it is busy", "longest", startTime, "error", err)
		}
		if sleep.For(patience, startRetry); patience.Err() != nil {
			return err
		}
	}
}

// busy reports whether a server gave no connection because it has none left, or because it took too long; or whether
// another process makes a file of SQLite a database with a write-ahead log, which refuses others at once.
func busy(err error) bool {
	if lite, embedded := errors.AsType[liteError](err); embedded {
		return lite.Code()&litePrimary == liteBusy
	}
	if pg, refused := errors.AsType[*pgconn.PgError](err); refused {
		return pg.Code == codeFull
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	return connecting && slices.ContainsFunc([]error{errHangs, net.ErrClosed, os.ErrDeadlineExceeded,
		context.DeadlineExceeded}, func(late error) bool { return errors.Is(err, late) })
}

// OldestPostgres is the oldest server that the service is tested with.
const OldestPostgres = 14

// Untested reports whether a version of PostgreSQL, as the server writes it, is older than that.
func Untested(version string) bool {
	var major int
	_, err := fmt.Sscanf(version, "%d", &major)
	return err == nil && major < OldestPostgres
}

// warnUntested logs when the server is older than promised. It goes on: most of the service works there.
func (d *DB) warnUntested(ctx context.Context) {
	var version string
	err := d.pool.QueryRowContext(ctx, `SELECT current_setting('server_version')`).Scan(&version)
	if err == nil && Untested(version) {
		d.log.WarnContext(ctx, "the service is not tested with a PostgreSQL as old as this", "version", version, "oldest",
			OldestPostgres)
	}
}
