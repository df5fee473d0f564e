package acceptance

import (
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// sweepSettles returns how long after the last fault and request everything accepted must be estimated and delivered.
// Elsewhere than in `make sweep` the machine may be busy.
func sweepSettles() time.Duration {
	if _, full, _ := sweepScope(); full {
		return 20 * time.Second
	}
	return wait.Limit
}

// settles waits until all that was accepted is estimated and delivered.
func (s *sweep) settles() {
	s.t.Helper()
	var open []string
	for begun, end := time.Now(), time.Now().Add(sweepSettles()); ; time.Sleep(time.Second / 2) {
		s.restores()
		if open = s.open(); len(open) == 0 {
			fmt.Printf("settled in %.1f s\n", time.Since(begun).Seconds())
			return
		}
		if time.Now().After(end) {
			break
		}
	}
	s.t.Errorf("%v after the last fault this is open:\n%s", sweepSettles(), strings.Join(open, "\n"))
}

// open lists what is neither estimated nor delivered, with what the database says of it.
func (s *sweep) open() []string {
	s.t.Helper()
	open := s.texts(`SELECT 'request ' || supplier_id || ' ' || id || ' is ' || status FROM material_requests
		WHERE status = 'enqueued' OR status = 'failed' ORDER BY uid LIMIT 10`)
	return append(open, s.texts(`SELECT 'delivery ' || d.id || ' of ' || d.supplier_id || ' to ' || d.destination || ': '
			|| d.status || ', attempts ' || d.attempts || ', worker ' || coalesce(d.worker, 0) || CASE WHEN EXISTS
			(SELECT 1 FROM workers w WHERE w.id = d.worker) THEN ', which lives' ELSE '' END
		FROM webhook_deliveries d JOIN material_requests r ON r.supplier_id = d.supplier_id AND r.id = d.request_id
		WHERE d.status <> 'delivered' AND d.destination <> '`+s.ailing.ID+`'
			AND NOT (d.status = 'failed' AND d.destination = 'own' AND d.round < r.round) ORDER BY d.uid LIMIT 20`)...)
}

// texts reads lines by a statement.
func (s *sweep) texts(statement string) []string {
	s.t.Helper()
	return rowsOf(s, statement, func(rows *sql.Rows) (text string, err error) { return text, rows.Scan(&text) })
}

func rowsOf[T any](s *sweep, statement string, scan func(*sql.Rows) (T, error)) (list []T) {
	s.t.Helper()
	rows, err := s.store.QueryContext(s.t.Context(), statement)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			s.t.Fatal(err)
		}
		list = append(list, v)
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
	return list
}

// accounts compares what the receivers saw with what is recorded.
func (s *sweep) accounts() {
	s.t.Helper()
	for _, fault := range s.calls.found() {
		s.t.Error(fault)
	}
	for _, supplier := range s.suppliers {
		s.accepted(supplier)
	}
	s.attempts()
	s.failures()
	s.units()
	accounted(s.t, s.hub)
}

// accepted fails unless exactly what was accepted of the supplier is stored.
func (s *sweep) accepted(of *sweepSupplier) {
	s.t.Helper()
	stored := map[int64]bool{}
	for _, id := range rowsOf(s, `SELECT id FROM material_requests WHERE supplier_id = '`+of.ID+`'`,
		func(rows *sql.Rows) (id int64, err error) { return id, rows.Scan(&id) }) {
		stored[id] = true
	}
	for _, id := range of.all() {
		if !stored[id] && !of.forgotten {
			s.t.Errorf("request %d of %s was accepted and is not there", id, of.ID)
		}
	}
	fmt.Printf("%s: %d requests\n", of.ID, len(stored))
}

// recorded is what the database has of a delivery's attempts.
type recorded struct {
	id                string
	attempts, unheard int // begun; interrupted or broken: they may have had no call
	rows              int
}

// attempts fails unless each delivery had as many calls as attempts are recorded.
func (s *sweep) attempts() {
	s.t.Helper()
	before := s.calls.all() // of what is still called
	list := rowsOf(s, `SELECT d.id, d.attempts, count(a.number) + 1,
			count(a.number) FILTER (WHERE a.status IS NULL) + CASE WHEN d.last_status IS NULL THEN 1 ELSE 0 END
		FROM webhook_deliveries d LEFT JOIN webhook_attempts a ON a.supplier_id = d.supplier_id AND a.delivery_id = d.id
		WHERE d.attempts > 0 GROUP BY d.id, d.attempts, d.last_status`,
		func(rows *sql.Rows) (r recorded, err error) {
			return r, rows.Scan(&r.id, &r.attempts, &r.rows, &r.unheard)
		})
	for _, r := range list {
		calls := s.calls.of(r.id)
		n := len(calls)
		if before[r.id] > r.attempts || n < r.attempts-r.unheard || r.rows != r.attempts {
			s.t.Errorf("%s had %d calls; %d attempts are counted, %d recorded, %d of them without an answer; calls at %v, %s",
				r.id, n, r.attempts, r.rows, r.unheard, calls, s.texts(`SELECT 'to ' || destination || ', request of ' || created_at
					|| ', last begun ' || last_started_at || ', changed ' || updated_at
					FROM webhook_deliveries WHERE id = '`+r.id+`'`))
		}
	}
	calls, deliveries := s.calls.total()
	fmt.Printf("%d calls of %d deliveries, %d deliveries recorded\n", calls, deliveries, len(list))
}

// failures fails when more failures of the receiver that always fails are counted than there were.
func (s *sweep) failures() {
	s.t.Helper()
	for _, fault := range s.texts(`SELECT 'of ' || r.supplier_id || ' ' || r.consecutive_failures ||
			' failures are counted, there were ' || n.attempts
		FROM webhook_receivers r JOIN (SELECT destination, sum(attempts) AS attempts FROM webhook_deliveries
			GROUP BY destination) n ON n.destination = r.supplier_id
		WHERE r.supplier_id = '` + s.ailing.ID + `' AND r.consecutive_failures > n.attempts`) {
		s.t.Error(fault)
	}
}

// units fails unless each answered scoreboard cost a unit, and none more than were asked for.
func (s *sweep) units() {
	s.t.Helper()
	for _, used := range rowsOf(s, `SELECT sum(used) FROM scoreboard_usage HAVING count(*) > 0`,
		func(rows *sql.Rows) (n int64, err error) { return n, rows.Scan(&n) }) {
		if used < s.answered.Load() || used > s.asked.Load() {
			s.t.Errorf("%d units are used for %d calls, of which %d were answered", used, s.asked.Load(), s.answered.Load())
		}
	}
}
