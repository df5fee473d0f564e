package app

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/deployments"
	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/database"
)

const (
	clockNoticed = time.Second      // of difference: an operator should know
	clockBroken  = 30 * time.Second // tokens begin to be refused
)

// grants finds the lines of deployments/postgres-roles.sql that hold in every installation; the others are indented.
var grants = regexp.MustCompile(`(?m)^GRANT ([^;]+?) ON (?:SEQUENCE )?([^;]+?) TO ([^;]+);`)

// rights returns what the role's process needs of PostgreSQL.
func rights(role config.Role) (list []database.Right) {
	login := map[config.Role]string{config.ForAPI: "supplyhub_api", config.ForWorker: "supplyhub_worker"}[role]
	for _, grant := range grants.FindAllStringSubmatch(deployments.Roles, -1) {
		columns := regexp.MustCompile(`\([^)]*\)`) // a right on some counts
		for privilege := range strings.SplitSeq(columns.ReplaceAllString(grant[1], ""), ",") {
			for table := range strings.SplitSeq(grant[2], ",") {
				if strings.Contains(grant[3], login) {
					list = append(list, database.Right{Table: strings.TrimSpace(table), Privilege: strings.TrimSpace(privilege)})
				}
			}
		}
	}
	return list
}

// examineDatabase reports whether the database can be asked more.
func (d *doctor) examineDatabase(ctx context.Context) bool {
	checking := ctx // a large file takes its time
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found, err := d.db.Examine(ctx)
	if err != nil {
		d.say(broken, "database", "start it, or correct DATABASE_URL", "it does not answer: %v", err)
		return false
	}
	if found.Schema != nil {
		d.say(well, "database", "", "%s %s answers", d.db.Engine(), found.Version)
		todo := "run `api migrate`"
		if strings.Contains(found.Schema.Error(), "newer") {
			todo = "use the newer build"
		}
		d.say(broken, "database schema", todo, "%v", found.Schema)
		return false
	}
	d.examineChanges(ctx, found.Version)
	d.say(well, "database schema", "", "it is this build's")
	if d.db.Engine() == database.SQLite {
		d.examineFile(checking)
	}
	if d.db.Engine() == database.Postgres {
		d.examineServer(ctx, found)
	}
	return true
}

// examineChanges has the database make a change and take it back.
func (d *doctor) examineChanges(ctx context.Context, version string) {
	if err := d.db.TryChange(ctx); err != nil {
		d.say(broken, "database", "make room on its disk, or end what keeps it from writing",
			"it answers and takes no changes: %v", err)
		return
	}
	old := d.db.Engine() == database.Postgres && database.Untested(version)
	d.sayAnswers("database", old, strconv.Itoa(database.OldestPostgres), "%s %s answers and takes changes", d.db.Engine(),
		version)
}

// sayAnswers reports a server that works, with a warning where it is older than the service is tested with.
func (d *doctor) sayAnswers(name string, old bool, oldest, detail string, args ...any) {
	if old {
		d.say(warning, name, "use version "+oldest+" or newer: the service is not tested with this one", detail, args...)
		return
	}
	d.say(well, name, "", detail, args...)
}

// examineFile reads the whole file of the embedded database.
func (d *doctor) examineFile(ctx context.Context) {
	if err := d.db.CheckFile(ctx); err != nil {
		d.say(broken, "database file", "stop the service, move DATA_DIR away, and restore a backup (`api restore FILE`)",
			"%v", err)
		return
	}
	d.say(well, "database file", "", "all of it agrees with itself")
}

func (d *doctor) examineServer(ctx context.Context, found database.Examination) {
	lacking, err := d.db.Lacking(ctx, rights(d.role))
	switch {
	case err != nil:
		d.say(broken, "database rights", "run deployments/postgres-roles.sql as the owner", "they cannot be read: %v", err)
	case len(lacking) > 0:
		names := make([]string, len(lacking))
		for i, r := range lacking {
			names[i] = r.String()
		}
		d.say(broken, "database rights", "run deployments/postgres-roles.sql as the owner", "this role lacks %s",
			strings.Join(names, ", "))
	default:
		d.say(well, "database rights", "", "this role may do all that the process does")
	}
	if found.Pooler {
		d.say(well, "database pooler", "", "a pooler is in between; transactions bring their settings")
	} else {
		d.say(well, "database pooler", "", "none: connections are direct")
	}
	d.sayEncrypted("database encryption", found.Plain, "add sslmode=verify-full to DATABASE_URL")
	if d.role == config.ForAPI && d.db.Replicated() {
		d.examineReplica(ctx)
	}
	d.sayClock(found.ClockAhead)
	d.sayConnections(found.Left, d.db.Connections())
	if d.role == config.ForAPI && d.cfg.Retention > 0 {
		d.examinePartitions(ctx)
	}
}

func (d *doctor) examineReplica(ctx context.Context) {
	const name = "replica encryption"
	plain, err := d.db.ExamineReplica(ctx)
	if err != nil {
		d.say(broken, name, "start it, or correct DATABASE_READ_URL", "the replica does not answer: %v", err)
		return
	}
	d.sayEncrypted(name, plain, "add sslmode=verify-full to DATABASE_READ_URL")
}

func (d *doctor) sayClock(ahead time.Duration) {
	status, todo := well, ""
	switch difference := ahead.Abs(); {
	case difference > clockBroken:
		status, todo = broken, "set both clocks by NTP: tokens and signatures are refused"
	case difference > clockNoticed:
		status, todo = warning, "set both clocks by NTP"
	}
	where := "ahead of"
	if ahead < 0 {
		where = "behind"
	}
	d.say(status, "clock", todo, "this machine's is %s %s the database's", ahead.Abs().Round(time.Millisecond), where)
}

func (d *doctor) sayConnections(left, taken int) {
	status, todo := well, ""
	if left < taken {
		status, todo = warning, "raise max_connections or the role's limit, set pool_max_conns, or use a pooler"
	}
	d.say(status, "database connections", todo, "%d are left, one more process takes up to %d", left, taken)
}

func (d *doctor) examinePartitions(ctx context.Context) {
	const name = "retention"
	list, err := d.Deliveries.Partitions(ctx)
	if err != nil {
		d.say(broken, name, "run deployments/postgres-roles.sql as the owner, with what it has for RETENTION_DAYS", "%v", err)
		return
	}
	var kept []string
	for _, p := range list {
		if p.Kept != "" {
			kept = append(kept, p.Name+" ("+p.Kept+")")
		}
	}
	if len(kept) > 0 {
		d.say(warning, name, "`api delivery list --status pending` shows what waits; resume or end it, "+
			"then run `api retention run`",
			"partitions of events that are old are kept: %s", strings.Join(kept, ", "))
		return
	}
	d.say(well, name, "", "%d partitions of events are in use, none is kept for long", len(list))
}
