package tracker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// A granted view may be one that was made here, over tracker_records, or any view of the operator's with the fifty
// columns. The service remembers of each for a minute its real name, the types of its columns, and whose
// records it shows. A view that lacks a column, or cannot be read, is refused here with what is wrong, before a
// listing trips over it.

// errNoView says that a granted name is not, or is no longer, the name of a view.
var errNoView = errors.New("there is no such view")

// lackingColumns says that a view cannot be listed.
type lackingColumns struct {
	view    string
	columns []string
}

// Error names all of them.
func (l *lackingColumns) Error() string {
	return fmt.Sprintf("the view %s lacks the columns %s", l.view, strings.Join(l.columns, ", "))
}

// relation is a view that was looked at: its name as SQL and how its key columns compare.
type relation struct {
	granted string           // the name in the grant
	from    string           // quoted
	engine  database.Engine  //
	types   map[string]class // of the columns that listings are chosen and ordered by
	owner   int64            // number of the client whose records these are, when the view was made here; else 0
	plain   string           // a record's fields
	joined  string           // the same as r's
	seen    time.Time

	statements sync.Map // of list pages: form → text
}

// class is how a column compares.
type class int

const (
	textClass  class = iota // as text, byte by byte
	dateClass               // PostgreSQL's date
	stampClass              // PostgreSQL's timestamps
	otherClass              // by its own type
)

// counted reports whether the database keeps counters of the view's rows.
func (r *relation) counted() bool { return r.owner != 0 }

// postgres reports whether the relation is in PostgreSQL.
func (r *relation) postgres() bool { return r.engine == database.Postgres }

// resolve looks the view up, or remembers it for a minute. Errors: errNoView, a missing column, a missing right.
func (s *Service) resolve(ctx context.Context, granted string) (*relation, error) {
	if known, ok := s.relations.Get(granted); ok && time.Since(known.seen) < relationTrust {
		return known, nil
	}
	found, err := s.lookUp(ctx, granted)
	if err != nil {
		s.relations.Remove(granted)
		return nil, err
	}
	s.relations.Add(granted, found)
	return found, nil
}

// lookUp finds the view and what there is to know of it, and tries to read it.
func (s *Service) lookUp(ctx context.Context, granted string) (*relation, error) {
	r := &relation{granted: granted, engine: s.deps.DB.Engine(), types: map[string]class{}, plain: fieldList(""),
		joined: fieldList("r."), seen: time.Now()}
	look := r.lookUpSQLite
	if r.postgres() {
		look = r.lookUpPostgres
	}
	present, err := look(ctx, s.rows)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, column := range columns() {
		if !slices.Contains(present, column) {
			missing = append(missing, column)
		}
	}
	if len(missing) > 0 {
		return nil, &lackingColumns{granted, missing}
	}
	// A view that cannot be read is found here, not by a listing.
	probe := "SELECT " + strings.Join(r.quoted(columns()), ", ") + " FROM " + r.from + " LIMIT 0"
	if err := s.rows.Select(ctx, probe, func([][]byte) error { return nil }); err != nil {
		return nil, fmt.Errorf("the view %s cannot be read: %w", granted, err)
	}
	return r, nil
}

// lookUpPostgres reads the view's columns and types. It is one that was made here if the text that was noted of it
// then is still its text.
func (r *relation) lookUpPostgres(ctx context.Context, rows *database.Rows) (present []string, err error) {
	err = rows.Select(ctx, `SELECT c.relkind::text, format('%I.%I', n.nspname, c.relname), a.attname::text,
			(CASE WHEN t.typbasetype <> 0 THEN b.typname ELSE t.typname END)::text, coalesce(v.client_number, 0)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON b.oid = t.typbasetype
		LEFT JOIN tracker_views v ON c.oid = to_regclass(v.name) AND v.definition = pg_get_viewdef(c.oid)
		WHERE c.oid = to_regclass($1)`, func(row [][]byte) error {
		if kind := string(row[0]); kind != "v" && kind != "m" { // a table is not a view, least of all one of our own
			return errNoView
		}
		column := string(row[2])
		present = append(present, column)
		r.from, r.types[column] = string(row[1]), classOf(string(row[3]))
		_, err := fmt.Sscan(string(row[4]), &r.owner)
		return err
	}, quotedName(r.granted))
	if err == nil && len(present) == 0 {
		err = errNoView
	}
	return present, err
}

// classOf returns how a column of that type is compared with a day.
func classOf(typeName string) class {
	switch typeName {
	case "date":
		return dateClass
	case "timestamp", "timestamptz":
		return stampClass
	case "text", "varchar", "bpchar", "name":
		return textClass
	default:
		return otherClass
	}
}

// lookUpSQLite is lookUpPostgres on SQLite, whose columns have no type of their own.
func (r *relation) lookUpSQLite(ctx context.Context, rows *database.Rows) (present []string, err error) {
	r.from = quote(r.granted)
	err = rows.Select(ctx, `SELECT coalesce(v.client_number, 0) FROM sqlite_master m
		LEFT JOIN tracker_views v ON v.name = m.name AND v.definition = m.sql
		WHERE m.type = 'view' AND m.name = $1`, func(row [][]byte) error {
		present = []string{}
		_, err := fmt.Sscan(string(row[0]), &r.owner)
		return err
	}, r.granted)
	if err != nil {
		return nil, err
	}
	if present == nil {
		return nil, errNoView
	}
	err = rows.Select(ctx, `SELECT name FROM pragma_table_info($1)`, func(row [][]byte) error {
		present = append(present, string(row[0]))
		return nil
	}, r.granted)
	if err != nil {
		return nil, fmt.Errorf("the view %s cannot be read: %w", r.granted, err)
	}
	r.types[columnID] = otherClass
	return present, nil
}

// quotedName returns the granted name as an SQL identifier, with its schema if it names one.
func quotedName(granted string) string {
	parts := identifiers(granted)
	for i, part := range parts {
		parts[i] = quote(part)
	}
	return strings.Join(parts, ".")
}

// quote returns a name as an SQL identifier.
func quote(identifier string) string { return `"` + strings.ReplaceAll(identifier, `"`, `""`) + `"` }

// quoted returns columns as identifiers of a statement.
func (r *relation) quoted(columns []string) []string {
	list := make([]string, len(columns))
	for i, column := range columns {
		list[i] = quote(column)
	}
	return list
}

// latest returns a column as it compares in an ORDER BY, latest first, nulls last. Of views made here it is what their
// index says.
func (r *relation) latest(column string) string {
	expression := quote(column)
	if r.postgres() && r.types[column] == textClass {
		expression += ` COLLATE "C"`
	}
	if r.counted() && (column == columnID || column == columnLoadDate) {
		return expression + " DESC" // never null
	}
	return expression + " DESC NULLS LAST"
}

// on returns the condition that a column's date is the day of the parameter, given as the engine's place for it and, on
// SQLite, the place of the day after.
func (r *relation) on(column, day, after string) string {
	c := quote(column)
	switch {
	case !r.postgres():
		return fmt.Sprintf("(%s >= %s AND %s < %s)", c, day, c, after)
	case r.types[column] == dateClass:
		return fmt.Sprintf("%s = %s::date", c, day)
	case r.types[column] == stampClass:
		return fmt.Sprintf("(%s >= %s::date AND %s < %s::date + 1)", c, day, c, day)
	default:
		return fmt.Sprintf("left(%s::text, 10) = %s::text", c, day)
	}
}

// lastPing returns the latest date that a row can have pinged on, as YYYY-MM-DD text; values in any other form are left
// out.
func (r *relation) lastPing(where string) string {
	c := quote(columnPingDate)
	condition := c + " <= '9999-12-31'"
	value := "max(" + c + ")"
	switch {
	case !r.postgres():
		condition = c + " GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'"
		value = "substr(max(" + c + "), 1, 10)"
	case r.types[columnPingDate] == stampClass:
		value = "max(" + c + ")::date"
	case r.types[columnPingDate] != dateClass:
		condition = c + `::text ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}'`
		value = "left(max(" + c + `::text COLLATE "C"), 10)`
	}
	if where != "" {
		condition += " AND " + where
	}
	return "SELECT " + value + " FROM " + r.from + " WHERE " + condition
}
