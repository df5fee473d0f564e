package tracker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// A view is read once when it is granted, and by the doctor, to find what it will not show as the specification has it:
// columns that are not there, types that no field can be read from, values that come out as null.

const rowsInspected = 1000

// checkViews returns what is wrong with the names, or which of the views are there and lack columns of a record, each
// with a view to start from.
func (s *Service) checkViews(ctx context.Context, views []string) (violations []errs.Violation, err error) {
	if violations = validateViews(views); len(violations) > 0 {
		return violations, nil
	}
	for i, view := range views {
		_, err := s.lookUp(ctx, view)
		lacking, isLacking := errors.AsType[*lackingColumns](err)
		switch {
		case isLacking:
			violations = append(violations, errs.At(fmt.Sprintf("/views/%d", i), lacking.Error()+"; start from: "+
				skeleton(view, nulls(lacking.columns))))
		case errs.KindOf(err) == errs.Unavailable:
			return nil, fmt.Errorf("look at view: %w", err)
		}
	}
	return violations, nil
}

// ViewNotes reads granted views once and returns what will not come out right, one line each. It is no error: a view
// may be made later.
func (s *Service) ViewNotes(ctx context.Context, views []string) (notes []string) {
	for _, view := range views {
		notes = append(notes, s.examine(ctx, view)...)
	}
	return notes
}

// Ailments returns of each view that an active client reads what keeps it from being shown whole.
func (s *Service) Ailments(ctx context.Context) (map[string][]string, error) {
	clients, err := s.store.list(ctx)
	ailments := map[string][]string{}
	for _, c := range clients {
		if !c.Active || len(c.Views) == 0 {
			continue
		}
		if _, seen := ailments[c.Views[0]]; !seen {
			ailments[c.Views[0]] = s.examine(ctx, c.Views[0])
		}
	}
	return ailments, err
}

// examine returns what will not come out right of a view.
func (s *Service) examine(ctx context.Context, granted string) []string {
	r, err := s.lookUp(ctx, granted)
	lacking, isLacking := errors.AsType[*lackingColumns](err)
	switch {
	case errors.Is(err, errNoView):
		return []string{fmt.Sprintf("there is no view %s (a table is none): its listings answer 403 until there is; "+
			"start from: %s", granted, skeleton(granted, nulls(columns())))}
	case isLacking:
		return []string{err.Error() + ": its listings answer 503; start from: " +
			skeleton(granted, nulls(lacking.columns))}
	case err != nil:
		return []string{errs.Text(err)}
	}
	notes, written := r.unfit()
	lost, err := s.lost(ctx, r)
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		notes = append(notes, lost[name])
	}
	delete(lost, columnLoadDate) // without one a record is of no date at all
	maps.Copy(written, nulls(slices.Collect(maps.Keys(lost))))
	if len(written) > 0 {
		notes = append(notes, "to show all of "+granted+" start from: "+skeleton(granted, written))
	}
	fault, ofView := errors.AsType[*database.ViewError](err)
	switch {
	case errors.Is(err, errNoLogin):
		return append(notes, fmt.Sprintf("the view %s was not read: it belongs to the role %s, whose code would run with "+
			"this service's rights, as TRACKER_DATABASE_URL is not set", granted, r.role))
	case ofView && fault.Denied:
		return append(notes, fmt.Sprintf("the view %s may not be read, its listings answer 403 (%v); its owner runs: %s",
			granted, fault, s.grant(r)))
	case err != nil:
		return append(notes, fmt.Sprintf("the view %s cannot be read, its listings answer 503: %s", granted, errs.Text(err)))
	}
	return notes
}

// probe returns why a view cannot be read, without reading a row. Nothing that listings remember changes.
func (s *Service) probe(ctx context.Context, granted string) error {
	r, err := s.lookUp(ctx, granted)
	if err != nil {
		return err
	}
	err = s.isolated(ctx, r, func(sel database.Select) error {
		return sel(ctx, "SELECT "+r.plain+" FROM "+r.from+" LIMIT 0", func([][]byte) error { return nil })
	})
	return errs.Doing("the view "+granted+" cannot be read", err)
}

// lost reads the view's first rows and returns, by field, what comes out as null although it is not.
func (s *Service) lost(ctx context.Context, r *relation) (lost map[string]string, err error) {
	lost = map[string]string{}
	list, order := inspected(), ""
	if !r.counted() { // what orders the listings must work here
		order = " ORDER BY " + r.latest(columnLoadDate) + ", " + r.latest(columnID)
	}
	err = s.isolated(ctx, r, func(sel database.Select) error {
		statement := "SELECT " + r.plain + ", " + quote(columnLoadDate) + " FROM " + r.from +
			order + fmt.Sprintf(" LIMIT %d", rowsInspected)
		return sel(ctx, statement, func(row [][]byte) error {
			for i, f := range list {
				if value := row[i]; value != nil && string(appendValue(nil, f.kind, value)) == "null" {
					fate := map[bool]string{false: "comes out as null", true: "is found by no date"}[f.name == columnLoadDate]
					lost[f.name] = fmt.Sprintf("the column %s of %s has %.60q, which is not %s: it %s", f.name, r.granted, value,
						f.kind, fate)
				}
			}
			return nil
		})
	})
	return lost, err
}

// inspected returns the fields that a view should have, and the date of the load, which the listings' filter reads.
func inspected() []field { return append(fields(), field{columnLoadDate, dateField}) }

// unfit returns which columns have a type that their field cannot be read from, or is not written as it was meant, and
// how each of them is better written.
func (r *relation) unfit() (notes []string, written map[string]string) {
	written = map[string]string{}
	for _, f := range inspected() {
		kind := r.types[f.name].kind
		if kind == "" || f.kind.readable(kind) {
			continue
		}
		written[f.name] = f.kind.cast(quote(f.name))
		notes = append(notes, fmt.Sprintf("the column %s of %s is of the type %s, which does not come out as %s; write %s",
			f.name, r.granted, kind, f.kind, written[f.name]))
	}
	return notes, written
}

// readable reports whether a field of the kind comes out right from a type of PostgreSQL, if its values are right.
func (k kind) readable(name string) bool {
	texts, numbers := " text varchar name", " int2 int4 int8 numeric float4 float8"
	if k == textField {
		return !slices.Contains([]string{"bool", "bpchar", "bytea"}, name)
	}
	return slices.Contains(strings.Fields(texts+map[kind]string{
		integerField: numbers, numberField: numbers, boolField: numbers + " bool",
		dateField: " timestamp timestamptz date", timeField: " timestamp timestamptz time timetz",
	}[k]), name)
}

// cast returns an expression as the kind's type.
func (k kind) cast(expression string) string {
	return "CAST(" + expression + " AS " + kinds[k].sql + ")"
}

// nulls returns, for columns that a view lacks or cannot show, a null of the type that each is best given. A cast of
// what cannot be read would end every listing in PostgreSQL, and be a wrong value in SQLite.
func nulls(names []string) map[string]string {
	kinds := map[string]kind{columnID: integerField, columnLoadDate: dateField}
	for _, f := range fields() {
		kinds[f.name] = f.kind
	}
	return lists.Pairs(names, func(name string) (string, string) { return name, kinds[name].cast("NULL") })
}

// skeleton returns a statement to start from, in which some columns are written as an expression.
func skeleton(granted string, written map[string]string) string {
	list := columns()
	for i, name := range list {
		if expression, found := written[name]; found {
			list[i] = expression + " AS " + name
		}
	}
	return "CREATE VIEW " + strings.Join(lists.Of(identifiers(granted), quote), ".") + " AS SELECT " +
		strings.Join(list, ", ") + " FROM your_table"
}

// grant returns the statements that let the view be read.
func (s *Service) grant(r *relation) string {
	login := quote(s.deps.DB.ReaderLogin(r.others()))
	return "GRANT USAGE ON SCHEMA " + r.schema + " TO " + login + "; GRANT SELECT ON " + r.from + " TO " + login
}
