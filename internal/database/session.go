package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/supplyhub/supplyhub/internal/lists"
)

// How a connection gets its settings. On PostgreSQL itself they are start-up parameters, sent once. A pooler refuses
// or drops those, and gives each transaction whichever server connection is free, so there each transaction sets what
// it needs (SET LOCAL, in the same message as BEGIN), and statements outside of one get a transaction of their own.
// Which of the two it is, the first connection finds out (probe); all others wait for that.

// A process may be lost without a word: its host or network is gone, or it is stopped. Its locks must end within 5 s.
// The server sees to that, as each state of a lost connection has a time limit:
//
//   - between two statements of a transaction: idle_in_transaction_session_timeout. A living process never meets it: no
//     network call belongs in a transaction (tx.go), so between two statements lie milliseconds of computing. It holds
//     through a pooler, too, which may not notice for hours that a client vanished: the transaction's own BEGIN sets it
//     there, and the server ends the pooler's connection.
//   - in a statement that waits for a lock: lock_timeout, and then it is between two statements.
//   - in a statement whose answer is not taken: tcp_user_timeout. A living process reads answers at once.
//   - in COPY, which waits for the rows of a load, however slowly its file comes: tcp_keepalives_*. It holds nothing
//     that others wait for.
//   - in no transaction: nothing is locked, only a connection is held, which tcp_keepalives_* end.
//
// The last three are the network's: behind a pooler they are the pooler's own (deployments/scaling.md), and on a Unix
// socket there are none.
//
// lock_timeout is also how long all others wait at most for a row that is held. The statements that wait, and who
// depends on them, are listed in internal/app/house_waits_test.go.
const (
	lostAfter = "3s" // after its last statement the transaction of a process that is lost is rolled back
	longest   = "1s" // wait for a lock
)

// Profile is what a database is opened for.
type Profile int

// The profiles.
const (
	Serving     Profile = iota // statement timeout, plans for lookups by key
	Maintenance                // no statement timeout, the server's own plans: commands, migrations
)

// setting is a run-time parameter and its value as current_setting shows it.
type setting struct {
	name, value string
	given       bool // by the address, in words that the server may show differently
	network     bool // of the network between the server and who connects to it, which may be a pooler
}

// isolation is stated by every transaction, so that the role's default does not count; the parameter is for statements
// alone.
var isolation = setting{name: "default_transaction_isolation", value: "read committed"}

// lost ends what a lost process holds: all connections have it, those that only read too, as a view's owner waits for
// its readers.
var lost = []setting{
	{name: "idle_in_transaction_session_timeout", value: lostAfter},
	{name: "tcp_user_timeout", value: "5s", network: true},
	{name: "tcp_keepalives_idle", value: "10", network: true},
	{name: "tcp_keepalives_interval", value: "5", network: true},
}

// settings of each profile on PostgreSQL. An address that gives one of them decides.
var settings = map[Profile][]setting{
	Serving: slices.Concat(lost, []setting{
		isolation,
		{name: "lock_timeout", value: longest},
		{name: "statement_timeout", value: "30s"},
		{name: "jit", value: "off"}, // none of our statements runs long enough to earn it back
		// The hot statements look rows up by key; the default, meant for spinning disks, reads whole tables instead.
		{name: "random_page_cost", value: "1.1"},
		// Plans are made once a connection, as making them costs as much as the hot statements themselves. One that was
		// made over an empty table must be right when the table is full: by index, row by row.
		{name: "enable_seqscan", value: "off"},
		{name: "enable_hashjoin", value: "off"},
		{name: "enable_mergejoin", value: "off"},
		{name: "plan_cache_mode", value: "force_generic_plan"},
	}),
	Maintenance: slices.Concat(lost, []setting{
		isolation,
		{name: "statement_timeout", value: "0"},
		{name: "jit", value: "off"}, // a batch of thousands of rows takes milliseconds, compiling its statement a second
	}),
}

// maintenance are the settings that make a transaction of a serving connection behave like Maintenance.
var maintenance = []setting{
	{name: "statement_timeout", value: "0"},
	{name: "enable_seqscan", value: "on"},
	{name: "enable_hashjoin", value: "on"},
	{name: "enable_mergejoin", value: "on"},
	{name: "plan_cache_mode", value: "auto"},
}

// maintenanceKey is the context key of ForMaintenance.
type maintenanceKey struct{}

// ForMaintenance lets the transactions begun with the context run without a statement timeout and by the server's own
// plans.
func ForMaintenance(ctx context.Context) context.Context {
	return context.WithValue(ctx, maintenanceKey{}, true)
}

// pooled lists the start-up parameters that connection poolers take; they refuse or drop all others.
var pooled = []string{"application_name", "client_encoding", "datestyle", "standard_conforming_strings", "timezone"}

// session is how connections of one pool get their settings: as start-up parameters where the server takes them. A
// pooler (PgBouncer) does not, and a SET would reach the next client of the server's connection: there, transactions
// set them for themselves. Which of the two it is becomes known with the first connection.
type session struct {
	// Written before the pool exists; wanted also by the one that probes, before it publishes its decision.
	wanted  []setting
	exec    bool // the address does not say in which way statements are sent
	foreign []string
	found   func() // is called once, by the one that probes, when a pooler was found

	// Shared by all connections of the pool. One of them at a time probes; it publishes what it found in the other two.
	probing  chan struct{} // holds one token
	decision atomic.Pointer[decision]
	spread   atomic.Bool // the tables are, over several servers
}

// decision is what the first connection has shown.
type decision struct {
	pooler bool      // start-up parameters are not carried
	local  []setting // what transactions set for themselves
	alone  bool      // a statement outside of a transaction needs one, too
}

// newSession adds the wanted settings to params, where params do not give them.
func newSession(wanted []setting, params map[string]string, exec bool) *session {
	s := &session{exec: exec, probing: make(chan struct{}, 1)}
	for name, value := range params {
		switch {
		case ours(name):
			s.wanted = append(s.wanted, setting{name: name, value: value, given: true})
		case !slices.Contains(pooled, name):
			s.foreign = append(s.foreign, name)
		}
	}
	for _, w := range wanted {
		if _, given := params[w.name]; !given {
			params[w.name] = w.value
			if !w.network {
				s.wanted = append(s.wanted, w)
			}
		}
	}
	return s
}

// ours reports whether a profile has the setting.
func ours(name string) bool {
	for _, profile := range settings {
		if slices.ContainsFunc(profile, func(s setting) bool { return s.name == name }) {
			return true
		}
	}
	return false
}

// prepare makes a connection's configuration fit the server; the first caller finds out what that is.
func (s *session) prepare(ctx context.Context, cfg *pgx.ConnConfig) error {
	d := s.decision.Load()
	if d == nil {
		select {
		case s.probing <- struct{}{}:
			defer func() { <-s.probing }()
		case <-ctx.Done():
			return ctx.Err()
		}
		if d = s.decision.Load(); d == nil {
			var err error
			if d, err = s.probe(ctx, cfg.Copy()); err != nil {
				return err
			}
			if d.pooler && s.found != nil {
				s.found()
			}
			s.decision.Store(d)
		}
	}
	if s.spread.Load() {
		s.planned(cfg)
	}
	if d.pooler {
		s.adapt(cfg)
	}
	return nil
}

// decided returns what the first connection has shown; nothing before there was one.
func (s *session) decided() decision {
	if d := s.decision.Load(); d != nil {
		return *d
	}
	return decision{}
}

// pooler reports whether a connection pooler was found.
func (s *session) pooler() bool { return s.decided().pooler }

// adapt leaves out what a pooler refuses, and prepared statements, which it may send to a connection that does not know
// them.
func (s *session) adapt(cfg *pgx.ConnConfig) {
	for name := range cfg.RuntimeParams {
		if !slices.Contains(pooled, name) {
			delete(cfg.RuntimeParams, name)
		}
	}
	if s.exec {
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
}

// probe connects once to learn which settings the server has taken.
func (s *session) probe(ctx context.Context, cfg *pgx.ConnConfig) (*decision, error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	pg, answered := errors.AsType[*pgconn.PgError](err)
	refused := answered && pg.Code == "08P01" // a start-up parameter, by a pooler; PostgreSQL names another error
	if refused {
		if len(s.foreign) > 0 {
			return nil,
				fmt.Errorf("DATABASE_URL: the server, a connection pooler, does not take %s: use ALTER ROLE … SET instead",
					strings.Join(s.foreign, ", "))
		}
		s.adapt(cfg)
		conn, err = pgx.ConnectConfig(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	spread, err := findSpread(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("look whether the tables are on several servers: %w", err)
	}
	if spread { // its settings are others
		s.spread.Store(true)
		s.autoPlans(cfg)
		again, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			return nil, err
		}
		_ = conn.Close(ctx)
		conn = again
	}
	missing, err := s.missing(ctx, conn)
	if err != nil {
		return nil, err
	}
	d := &decision{pooler: refused || len(missing) > 0, local: missing}
	d.alone = slices.ContainsFunc(missing, func(m setting) bool {
		return m.name == isolation.name || m.name == "plan_cache_mode" && !s.exec
	})
	return d, nil
}

// missing lists the settings that the connection does not have.
func (s *session) missing(ctx context.Context, conn *pgx.Conn) ([]setting, error) {
	names := lists.Of(s.wanted, func(w setting) string { return w.name })
	var encoding string
	var have []string
	err := conn.QueryRow(ctx, `SELECT current_setting('server_encoding'), array(SELECT current_setting(name)
		FROM unnest($1::text[]) WITH ORDINALITY AS n (name, place) ORDER BY place)`,
		pgx.QueryExecModeExec, names).Scan(&encoding, &have)
	if err != nil {
		return nil, fmt.Errorf("read the connection's settings: %w", err)
	}
	if encoding != "UTF8" {
		return nil,
			fmt.Errorf("the database's encoding is %s, it must be UTF8 (CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0)",
				encoding)
	}
	var missing []setting
	for i, w := range s.wanted {
		_, sent := conn.Config().RuntimeParams[w.name]
		if taken := have[i] == w.value || w.given && sent; !taken {
			missing = append(missing, w)
		}
	}
	return missing, nil
}

// begin returns the statement that begins a transaction with the mode and the settings.
func begin(mode string, local []setting) string {
	var b strings.Builder
	b.WriteString("begin " + mode)
	for _, l := range local {
		b.WriteString("; set local " + l.name + " = '" + strings.ReplaceAll(l.value, "'", "''") + "'")
	}
	return b.String()
}

// connector hands out the pool's connections as conn.
type connector struct {
	driver.Connector
	session *session
	keeps   func() bool // a connection that is given back
}

// Connect takes a connection from the pool.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	taken, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: taken.(*stdlib.Conn), session: c.session, keeps: c.keeps},
		nil //nolint:forcetypeassert // the pool's connector makes no other
}

// conn is a pool's connection whose transactions state their isolation level and, behind a pooler, their settings.
type conn struct {
	*stdlib.Conn
	session *session
	keeps   func() bool
	inTx    bool
}

// Close releases the connection to the pool, or ends it. The pool's own hook for that releases it too late: the next
// caller got a second connection.
func (c *conn) Close() error {
	waits(c.Conn.Conn().PgConn(), false)
	if !c.keeps() {
		ctx, cancel := context.WithTimeout(context.Background(), closeWait)
		defer cancel()
		_ = c.Conn.Conn().Close(ctx) // it is given up whatever this says
	}
	return c.Conn.Close()
}

// BeginTx begins at read committed, whatever the role's default, unless opts say otherwise.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if c.Conn.Conn().IsClosed() {
		return nil, driver.ErrBadConn
	}
	if opts.Isolation != 0 || opts.ReadOnly {
		return nil, errors.New("begin: only read committed transactions that may write are begun here")
	}
	local, maintains := c.session.decided().local, ctx.Value(maintenanceKey{}) != nil
	if maintains {
		local = append(local[:len(local):len(local)], maintenance...)
	}
	waits(c.Conn.Conn().PgConn(), maintains)
	tx, err := c.Conn.Conn().BeginTx(ctx,
		pgx.TxOptions{BeginQuery: begin("isolation level read committed", local), CommitQuery: commitOf(ctx)})
	if err != nil {
		return nil, err
	}
	c.inTx = true
	return transaction{ctx, tx, c}, nil
}

// transaction wraps a pgx transaction for database/sql, and lets its conn know that one is open.
type transaction struct {
	ctx  context.Context //nolint:containedctx // driver.Tx's methods take none
	tx   pgx.Tx
	conn *conn
}

// Commit commits.
func (t transaction) Commit() error {
	t.conn.inTx = false
	return t.tx.Commit(t.ctx)
}

// Rollback rolls back.
func (t transaction) Rollback() error {
	t.conn.inTx = false
	return t.tx.Rollback(t.ctx)
}

// alone reports whether a statement needs a transaction of its own to run under the right settings. Statements that
// work on an index while others write run in none.
func (c *conn) alone(query string) bool {
	return !c.inTx && c.session.decided().alone && !strings.Contains(query, " INDEX CONCURRENTLY ")
}

// ExecContext runs a statement.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if !c.alone(query) {
		return c.Conn.ExecContext(ctx, query, args)
	}
	tx, err := c.BeginTx(ctx, driver.TxOptions{})
	if err != nil {
		return nil, err
	}
	result, err := c.Conn.ExecContext(ctx, query, args)
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return result, tx.Commit()
}

// QueryContext runs a statement that returns rows.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if !c.alone(query) {
		return c.Conn.QueryContext(ctx, query, args)
	}
	tx, err := c.BeginTx(ctx, driver.TxOptions{})
	if err != nil {
		return nil, err
	}
	found, err := c.Conn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return rows{found.(*stdlib.Rows), tx}, nil //nolint:forcetypeassert // stdlib makes no other
}

// rows ends its transaction when it is closed.
type rows struct {
	*stdlib.Rows
	tx driver.Tx
}

// Close commits; a statement that failed has made its transaction fail, so that nothing is.
func (r rows) Close() error { return errors.Join(r.Rows.Close(), r.tx.Commit()) }
