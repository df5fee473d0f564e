package app_test

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

// A process may be lost while it holds rows, which the server frees after 3 s (internal/database/session.go). Here each
// statement that locks is decided on: how long it waits for a row that is held, and who waits with it. No statement
// waits longer than lock_timeout, which is 1 s. The names are those of the functions and constants of the stores.
var waits = []struct {
	decision   string
	statements string
}{
	{"It waits for nothing: rows that are held are passed over, and found in the next round.", `
		database.Free database.TryLock
		deliveries.LockDue deliveries.lockDueSpread deliveries.LockReceivers
		deliveries.claimOf deliveries.dueFirst deliveries.acceptedFirst deliveries.caughtUp deliveries.beginSQLite
		deliveries.updateClaimed deliveries.refreshDueOf notify.claim supplierauth.endOldest`},
	{"It is of its own process alone: no other one changes these rows while the process lives.", `
		database.Numbers database.TryChange figures.add sending.beat sending.newLease`},
	{`A batch of many callers waits once. Then its items are flushed one by one while the next batches go on (groupcommit;
		work.workOnEach), and only those that are held wait on, for four waits in all. Behind many of them the others end.`, `
		deliveries.MarkDue deliveries.finishPostgres deliveries.finishSQLite
		deliveries.insertDeliveriesPostgres deliveries.insertDeliveriesSQLite
		deliveries.insertEventsPostgres deliveries.insertEventsSQLite
		materials.insertPostgres materials.insertSQLite materials.roundsTable materials.saveReceipt materials.takingReceipts
		scoreboard.spend supplierauth.open supplierauth.rotate work.clear`},
	{"A loop of the process waits. Other loops go on, no call waits for it, and it repeats its work in its next turn.", `
		deliveries.Interrupt deliveries.PutBack deliveries.end deliveries.forget deliveries.Keep
		figures.keep figures.trim
		notify.forget notify.openEvents notify.putOff notify.save notify.setBack notify.take
		operator.lockOld operator.prune
		receivers.pauseFailing receivers.saveHealth
		sending.giveShards sending.leave sending.takeOver sending.takeShards
		supplierauth.purgePortal supplierauth.purgeRotated supplierauth.purgeSessions
		work.setBack work.tryAgain`},
	{`One caller waits, and is answered 503 with Retry-After. Where the statement is a part of another transaction (a
		pause after a 410, a request that is lost, a notice, a receiver that has recovered) that one's decision holds.`, `
		database.ShareLock database.insertAside database.loadSQLite
		deliveries.CatchUp deliveries.DueAgain deliveries.SetAside deliveries.lockOf deliveries.reopen
		deliveries.begin deliveries.store receivers.lockFailing receivers.moved
		estimates.alone estimates.save
		materials.choose materials.fail materials.lock materials.nextRound materials.redelivered
		notify.add
		products.apply products.lock products.write
		receivers.lockTests receivers.pause receivers.resume receivers.saveTests
		scoreboard.set scoreboard.unset
		supplierauth.Expire supplierauth.Insert supplierauth.deletePortalSession supplierauth.dropSecrets
		supplierauth.endFamily supplierauth.endPortalSessions supplierauth.endReused supplierauth.endSessions
		supplierauth.expireSecrets supplierauth.holdSupplier
		supplierauth.insertPortalLink supplierauth.insertPortalSession supplierauth.insertSecret
		supplierauth.insertSupplier supplierauth.lockSupplier supplierauth.saveActive supplierauth.saveSupplier
		supplierauth.setWebhookURL supplierauth.touchSupplier supplierauth.usePortalLink
		tracker.Expire tracker.Insert tracker.ensureView tracker.insertClient tracker.lockClient tracker.notePin
		tracker.remove tracker.saveClient`},
}

// locks marks the SQL that locks rows, a table, or a number.
var locks = regexp.MustCompile(`(?s)\bUPDATE\s+[a-z_]+\s+(?:[a-z]\s+)?SET\b|\bUPDATE $|` +
	`\bDELETE FROM\b|\bINSERT INTO\b|` +
	`\bFOR (?:NO KEY )?UPDATE\b|\bFOR (?:KEY )?SHARE\b|\bLOCK TABLE\b|\bpg_(?:try_)?advisory_(?:xact_)?lock`)

// written marks the calls of gorm's builder that lock.
var written = map[string]bool{"Save": true, "Create": true, "Updates": true}

func TestHouse_every_statement_that_locks_says_whom_it_waits_for(t *testing.T) {
	t.Parallel()
	decided := map[string]int{}
	for _, w := range waits {
		for name := range strings.FieldsSeq(w.statements) {
			decided[name]++
		}
	}
	found := map[string]bool{}
	for _, f := range sources(t) {
		if f.test || isHelper(path.Dir(f.name)) || !f.matches([]string{"internal/*/store*.go", "internal/*/*/store*.go",
			"internal/database/*.go"}) {
			continue
		}
		for _, d := range f.tree.Decls {
			for _, name := range lockers(d) {
				found[path.Base(path.Dir(f.name))+"."+name] = true
			}
		}
	}
	for name := range found {
		if decided[name] != 1 {
			t.Errorf("%s locks: decide what waits for what it locks, and list it in waits once", name)
		}
		delete(decided, name)
	}
	for name := range decided {
		t.Errorf("%s is listed in waits and does not lock", name)
	}
}

// lockers returns the functions and constants of a declaration whose statements lock.
func lockers(d ast.Decl) (names []string) {
	locking := func(name string, n ast.Node) {
		found := false
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				found = found || n.Kind == token.STRING && locks.MatchString(n.Value)
			case *ast.CallExpr:
				s, ok := n.Fun.(*ast.SelectorExpr)
				found = found || ok && len(n.Args) > 0 && written[s.Sel.Name]
			case *ast.SelectorExpr:
				found = found || n.Sel.Name == "Locking"
			}
			return true
		})
		if found {
			names = append(names, name)
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		locking(d.Name.Name, d)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				locking(v.Names[0].Name, v)
			}
		}
	}
	return names
}
