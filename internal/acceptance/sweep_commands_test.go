package acceptance

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// seldomCalled are the callers that only the full sweep has: commands, each a process, and what stops others.
func (s *sweep) seldomCalled() []func(round int) {
	old := s.supplier(func(int) int { return 200 })
	old.forgotten = true
	aside := s.hub.Supplier(s.t)
	client := newTrackerClient(s.t, s.hub)
	file := client.file(s.t, "records.ndjson", tracked("C", 3, "2026-11-20", nil, nil))
	return []func(int){
		func(round int) { s.runs(round, supplierCommands(aside.ID)) },
		func(round int) { s.runs(round, trackerCommands(client.ID, file)) },
		func(round int) { s.runs(round, settingCommands()) },
		func(round int) { s.ages(old); s.runs(round, []string{"retention run --days 1"}) },
		func(round int) {
			s.runs(round, []string{"delivery redeliver --status failed --yes --supplier " + s.refusing.ID})
		},
		s.chooses, s.stopsWorkers, s.stopsQueue,
	}
}

func (s *sweep) runs(round int, commands []string) {
	s.t.Helper()
	command := commands[round%len(commands)]
	if _, errOut, code := s.hub.Command(s.t, strings.Fields(command)...); code > 1 {
		s.t.Errorf("api %s: exit code %d: %s", command, code, errOut)
	}
}

func supplierCommands(id string) []string {
	return []string{
		"supplier create --name another", "supplier update " + id + " --name renamed",
		"supplier rotate-key " + id + " --overlap 1s",
		"supplier rotate-webhook-secret " + id + " --overlap 1s", "supplier deactivate " + id, "supplier activate " + id,
		"supplier pause " + id, "supplier resume " + id, "supplier revoke-sessions " + id, "supplier portal-link " + id,
	}
}

func trackerCommands(id, file string) []string {
	return []string{
		"tracker client create --name Another", "tracker client set-views " + id + " --views tracker_records",
		"tracker client rotate-key " + id + " --overlap 1s", "tracker client deactivate " + id,
		"tracker client activate " + id, "tracker load " + file + " --client " + id,
		"tracker load " + file + " --client " + id + " --replace",
	}
}

func settingCommands() []string {
	return []string{
		"rate set drone --carrier Another --base-cents 1000 --per-kg-cents 10 --minimum-cents 1500 --cubage 300" +
			" --max-side 1 --max-weight 1 --transit-days 1",
		"settings set scoreboard.daily_quota 100000", "rate remove drone", "settings unset scoreboard.daily_quota",
	}
}

// ages makes a request old, which retention then takes. Retention reads in the order of acceptance and ends where
// nothing is old any more: earlier requests are made old too, and stay, as they were changed of late.
func (s *sweep) ages(old *sweepSupplier) {
	id := s.posted(old, nil)
	if _, there := s.comes(old, id, "estimated"); !there {
		return
	}
	err := pastDeadlocks(s.t, s.store, `WITH one AS (SELECT uid FROM material_requests
			WHERE supplier_id = $1 AND id = $2 AND status = 'estimated'),
		before AS MATERIALIZED (SELECT r.uid FROM material_requests AS r, one WHERE r.uid <= one.uid AND r.created_at > 1
			AND r.status <> 'enqueued' ORDER BY r.supplier_id, r.id FOR UPDATE OF r)
		UPDATE material_requests AS r SET created_at = 1,
			updated_at = CASE WHEN r.uid IN (SELECT uid FROM one) THEN 1 ELSE r.updated_at END
		FROM before WHERE r.uid = before.uid`, old.ID, id)
	if err != nil {
		s.t.Errorf("make a request old: %v", err)
	}
}

// stopsWorkers restarts a worker, or kills it. One that is only suspended leaves calls open, which another makes again.
func (s *sweep) stopsWorkers(round int) {
	worker := s.hub.Workers[round/2%len(s.hub.Workers)]
	if round%2 == 0 {
		worker.Kill()
		hold(beyondLease)
	} else {
		worker.Stop()
	}
	worker.Restart()
	hold(outage)
}

// stopsQueue takes NATS away for a while: workers take their work from the database.
func (s *sweep) stopsQueue(int) {
	hold(2 * outage)
	s.hub.NATS.Stop()
	hold(outage)
	s.hub.NATS.Restart()
}

// kindsOutside are the kinds of the code that the full sweep does not cut, and why.
var kindsOutside = map[string]string{
	"drop a partition":                 "needs a day that is over",
	"open a partition":                 "is made once a day",
	"look for old work":                "only reads",
	"accept requests":                  "SQLite's, swept there",
	"change sessions":                  "SQLite's, swept there",
	"end old deliveries":               "needs what has waited for days",
	"follow a clock that was set back": "needs a jump of the clock",
	"fail a request":                   "a part of others: of results, and of an estimation that fails for a day",
	"UPDATE operator_notices":          "needs a jump of the clock",
	"INSERT INTO main":                 "SQLite's load",
	"INSERT INTO temp":                 "SQLite's load",
	"UPDATE sequences":                 "SQLite's numbers",
}

// TestSweep_leaves_out_only_kinds_that_exist keeps the list of exceptions true.
func TestSweep_leaves_out_only_kinds_that_exist(t *testing.T) {
	t.Parallel()
	k := readKinds(t)
	for kind := range kindsOutside {
		if k.transactions[kind] == nil && k.writes[kind] == nil {
			t.Errorf("%q is left out and is not in the code", kind)
		}
	}
}

// unswept lists the transactions of the code that were not cut, and the writes that nothing made.
func (s *sweep) unswept(k kindsOfCode) (list []string) {
	var wanted []string
	for kind := range k.transactions {
		if kindsOutside[kind] == "" {
			wanted = append(wanted, kind)
		}
	}
	list = s.plan.missing(wanted...)
	for kind, places := range k.writes {
		if s.plan.only == "" && kindsOutside[kind] == "" && !s.plan.written(kind) {
			list = append(list, fmt.Sprintf("%s: never came up (%s)", kind, filepath.Base(places[0])))
		}
	}
	return list
}
