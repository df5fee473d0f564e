package doctor

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/deployments"
	"github.com/supplyhub/supplyhub/internal/database"
)

const (
	clockNoticed = time.Second      // of difference: an operator should know
	clockBroken  = 30 * time.Second // tokens begin to be refused
)

// grants finds the lines of deployments/postgres-roles.sql that hold in every installation; the others are indented.
var grants = regexp.MustCompile(`(?m)^GRANT ([^;]+?) ON (?:SEQUENCE )?([^;]+?) TO ([^;]+);`)

// rights returns what the login's process needs of PostgreSQL: tables, and a privilege on each.
func rights(login string) (tables, privileges []string) {
	columns := regexp.MustCompile(`\([^)]*\)`) // a right on some counts
	for _, grant := range grants.FindAllStringSubmatch(deployments.Roles, -1) {
		if !strings.Contains(grant[3], login) {
			continue
		}
		for privilege := range strings.SplitSeq(columns.ReplaceAllString(grant[1], ""), ",") {
			for table := range strings.SplitSeq(grant[2], ",") {
				tables = append(tables, strings.TrimSpace(table))
				privileges = append(privileges, strings.TrimSpace(privilege))
			}
		}
	}
	return tables, privileges
}

// Database looks at the database as the process of the login would use it, an api or a worker, and reports whether it
// can be asked more.
func (c *Checkup) Database(ctx context.Context, db *database.DB, login string, api bool) bool {
	checking := ctx // a large file takes its time
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	found, err := db.Examine(ctx)
	if err != nil {
		c.Say(Broken, "database", "start it, or correct DATABASE_URL", "it does not answer: %v", err)
		return false
	}
	if found.Schema != nil {
		c.Well("database", "%s %s answers", db.Engine(), found.Version)
		todo := "run `api migrate`"
		if strings.Contains(found.Schema.Error(), "newer") {
			todo = "use the newer build"
		}
		c.Say(Broken, "database schema", todo, "%v", found.Schema)
		return false
	}
	if err := db.TryChange(ctx); err != nil {
		c.Say(Broken, "database", "make room on its disk, or end what keeps it from writing",
			"it answers and takes no changes: %v", err)
	} else {
		c.answers("database", db.Engine() == database.Postgres && database.Untested(found.Version),
			strconv.Itoa(database.OldestPostgres), "%s %s answers and takes changes", db.Engine(), found.Version)
	}
	c.Well("database schema", "it is this build's")
	if db.Engine() == database.SQLite {
		c.Tried(db.CheckFile(checking), "database file",
			"stop the service, move DATA_DIR away, and restore a backup (`api restore FILE`)", "",
			"all of it agrees with itself")
		return true
	}
	c.server(ctx, db, found, login)
	if api && db.Replicated() {
		if plain, err := db.ExamineReplica(ctx); err != nil {
			c.Say(Broken, "replica encryption", "start it, or correct DATABASE_READ_URL", "the replica does not answer: %v", err)
		} else {
			c.Encrypted("replica encryption", plain, "add sslmode=verify-full to DATABASE_READ_URL")
		}
	}
	return true
}

// server looks at what only PostgreSQL has.
func (c *Checkup) server(ctx context.Context, db *database.DB, found database.Examination, login string) {
	const name, todo = "database rights", "run deployments/postgres-roles.sql as the owner"
	tables, privileges := rights(login)
	lacking, err := db.Lacking(ctx, tables, privileges)
	if err == nil && len(lacking) > 0 {
		err = errors.New("this role lacks " + strings.Join(lacking, ", "))
	}
	c.Tried(err, name, todo, "", "this role may do all that the process does")
	if found.Pooler {
		c.Well("database pooler", "a pooler is in between; transactions bring their settings")
	} else {
		c.Well("database pooler", "none: connections are direct")
	}
	c.Encrypted("database encryption", found.Plain, "add sslmode=verify-full to DATABASE_URL")
	c.clock(found.ClockAhead)
	c.Unless(found.Left < db.Connections(), Warning, "database connections",
		"raise max_connections or the role's limit, set pool_max_conns, or use a pooler",
		"%d are left, one more process takes up to %d", found.Left, db.Connections())
}

func (c *Checkup) clock(ahead time.Duration) {
	status, todo, where := Warning, "set both clocks by NTP", "ahead of"
	if ahead.Abs() > clockBroken {
		status, todo = Broken, "set both clocks by NTP: tokens and signatures are refused"
	}
	if ahead < 0 {
		where = "behind"
	}
	c.Unless(ahead.Abs() > clockNoticed, status, "clock", todo, "this machine's is %s %s the database's",
		ahead.Abs().Round(time.Millisecond), where)
}
