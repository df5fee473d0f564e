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
	"github.com/supplyhub/supplyhub/internal/errs"
)

// A granted view may be one that was made here, over tracker_records, or any view with the columns of a record. Its
// real name, the types of its columns, who owns it and whose records it shows are in the catalogue, which the
// service's own login reads: that runs nothing of the view. Those of a view that was made here are remembered for a
// minute.

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

// relation is a view that was looked at: its name as SQL and how its columns compare.
type relation struct {
	granted string            // the name in the grant
	from    string            // quoted
	schema  string            // PostgreSQL: quoted
	dialect database.Dialect  //
	types   map[string]column // empty on SQLite, whose columns have no type of their own
	owner   int64             // number of the client whose records these are, when the view was made here; else 0
	role    string            // PostgreSQL: who owns the view, when that is not the owner of the service's own tables
	plain   string            // a record's fields
	joined  string            // the same as r's
	seen    time.Time

	statements sync.Map // of list pages: form → text
}

// column is what a view's column is to PostgreSQL.
type column struct {
	kind     string // the type's name, a domain's that of what it is made of
	collated bool   // it is compared by a collation
}

// date and stamp report whether the column is compared with a day as such; any other is by its text.
func (c column) date() bool  { return c.kind == "date" }
func (c column) stamp() bool { return c.kind == "timestamp" || c.kind == "timestamptz" }

// integer reports whether the column holds integers.
func (c column) integer() bool { return c.kind == "int2" || c.kind == "int4" || c.kind == "int8" }

// counted reports whether the database keeps counters of the view's rows.
func (r *relation) counted() bool { return r.owner != 0 }

// others reports whether a role that is not the service's own owns the view, and with it the code that it runs.
func (r *relation) others() bool { return r.role != "" }

// postgres reports whether the relation is in PostgreSQL.
func (r *relation) postgres() bool { return r.dialect.Engine() == database.Postgres }

// resolve looks the view up; one that was made here is remembered for a minute. Errors: errNoView, lackingColumns.
func (s *Service) resolve(ctx context.Context, granted string) (*relation, error) {
	if known, ok := s.relations.Get(granted); ok && time.Since(known.seen) < relationTrust {
		return known, nil
	}
	found, err := s.lookUp(ctx, granted)
	if err != nil || !found.counted() {
		s.relations.Remove(granted)
		return found, err
	}
	s.relations.Add(granted, found)
	return found, nil
}

// lookUp finds the view in the catalogue, with what there is to know of it.
func (s *Service) lookUp(ctx context.Context, granted string) (*relation, error) {
	r := &relation{granted: granted, dialect: s.deps.DB.Dialect, types: map[string]column{}, plain: fieldList(""),
		joined: fieldList("r."), seen: time.Now()}
	present, err := database.Either(r.dialect, r.lookUpPostgres, r.lookUpSQLite)(ctx, s.rows)
	if err != nil {
		return nil, err
	}
	if len(present) == 0 {
		return nil, errNoView
	}
	missing := slices.DeleteFunc(columns(), func(column string) bool { return slices.Contains(present, column) })
	if len(missing) > 0 {
		return nil, &lackingColumns{granted, missing}
	}
	return r, nil
}

// lookUpPostgres reads the view's columns and types. It is one that was made here if the text that was noted of it
// then is still its text. Names are looked up as data: a name in a schema that this login may not use is found, too.
func (r *relation) lookUpPostgres(ctx context.Context, rows *database.Rows) (present []string, err error) {
	parts := identifiers(r.granted)
	schema, name := "", parts[0]
	if len(parts) > 1 {
		schema, name = parts[0], parts[1]
	}
	err = rows.Select(ctx, `SELECT c.relkind::text, format('%I.%I', n.nspname, c.relname), a.attname::text,
			(CASE WHEN t.typbasetype <> 0 THEN b.typname ELSE t.typname END)::text, a.attcollation <> 0,
			coalesce(v.client_number, 0), CASE WHEN c.relowner <> own.relowner THEN pg_get_userbyid(c.relowner)::text END,
			format('%I', n.nspname)
		FROM (SELECT found.oid FROM pg_class found JOIN pg_namespace ON pg_namespace.oid = found.relnamespace
				JOIN unnest(CASE WHEN $1 = '' THEN current_schemas(false) ELSE ARRAY[$1::name] END)
					WITH ORDINALITY AS path (schema, place) ON path.schema = nspname
				WHERE found.relname = $2 ORDER BY path.place LIMIT 1) AS named
		JOIN pg_class c ON c.oid = named.oid JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON b.oid = t.typbasetype
		JOIN pg_class own ON own.oid = to_regclass('tracker_views')
		LEFT JOIN tracker_views v ON c.oid = to_regclass(v.name) AND v.definition = pg_get_viewdef(c.oid)`,
		func(row [][]byte) error {
			if kind := string(row[0]); kind != "v" && kind != "m" { // a table is not a view, least of all one of our own
				return errNoView
			}
			name := string(row[2])
			present = append(present, name)
			r.from, r.role, r.schema = string(row[1]), string(row[6]), string(row[7])
			r.types[name] = column{kind: string(row[3]), collated: string(row[4]) == "t"}
			return scanInts(row[5:6], &r.owner)
		}, schema, name)
	return present, err
}

// lookUpSQLite is lookUpPostgres on SQLite.
func (r *relation) lookUpSQLite(ctx context.Context, rows *database.Rows) (present []string, err error) {
	r.from = quote(r.granted)
	err = rows.Select(ctx, `SELECT coalesce(v.client_number, 0), c.name
		FROM sqlite_master m JOIN pragma_table_info(m.name) c
		LEFT JOIN tracker_views v ON v.name = m.name AND v.definition = m.sql
		WHERE m.type = 'view' AND m.name = $1`, func(row [][]byte) error {
		present = append(present, string(row[1]))
		return scanInts(row[:1], &r.owner)
	}, r.granted)
	return present, errs.Doing("the view "+r.granted+" cannot be read", err)
}

// quote returns a name as an SQL identifier.
func quote(identifier string) string { return `"` + strings.ReplaceAll(identifier, `"`, `""`) + `"` }

// latest returns a column as it compares in an ORDER BY, latest first, nulls last.
func (r *relation) latest(column string) string { return r.compared(column) + " DESC NULLS LAST" }

// compared returns a column as it compares: texts byte by byte, whatever collation they have.
func (r *relation) compared(column string) string {
	switch {
	case !r.postgres():
		return quote(column) + " COLLATE BINARY"
	case r.types[column].collated:
		return quote(column) + ` COLLATE "C"`
	default:
		return quote(column)
	}
}

// tied returns the fields of a record as an ORDER BY has them last: rows that it leaves in no order look alike. Types
// whose equal values may look different, or that have no order, compare as texts.
func (r *relation) tied() string {
	list := make([]string, 0, len(fields()))
	for _, f := range fields() {
		switch r.types[f.name].kind {
		case "bool", "int2", "int4", "int8", "date", "time", "timestamp", "timestamptz", "uuid", "text", "varchar", "":
			list = append(list, r.compared(f.name))
		default:
			list = append(list, quote(f.name)+`::text COLLATE "C"`)
		}
	}
	return strings.Join(list, ", ")
}

// on returns the condition that a column's date is the day of the parameter. On SQLite it is a range, which an index
// may serve: no text that begins with a day is greater than the day and ~.
func (r *relation) on(column, day string) string {
	c := quote(column)
	switch {
	case !r.postgres():
		return fmt.Sprintf("(%s >= %s AND %s < %s || '~')", c, day, c, day)
	case r.types[column].date():
		return fmt.Sprintf("%s = %s::date", c, day)
	case r.types[column].stamp():
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
	case r.types[columnPingDate].stamp():
		value = "max(" + c + ")::date"
	case !r.types[columnPingDate].date():
		condition = c + `::text ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}'`
		value = "left(max(" + c + `::text COLLATE "C"), 10)`
	}
	return "SELECT " + value + " FROM " + r.from + " WHERE " + condition + " AND " + where
}
