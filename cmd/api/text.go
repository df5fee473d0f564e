package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/terminal"
)

const (
	nothing   = "-" // what null and empty text look like
	shownTime = "2006-01-02 15:04:05 UTC"
)

// page is one object that reads like a page: its members, then its lists as tables with the given columns.
type page struct {
	object any
	lists  map[string]columns
}

// texter is a result that has a form of its own for people.
type texter interface{ WriteText(w io.Writer) error }

// printText writes a result for a person, from the same JSON that -o json prints.
func printText(w io.Writer, result any) error {
	if t, ok := result.(texter); ok {
		return t.WriteText(w)
	}
	return page{object: result}.WriteText(w)
}

// whole returns what -o json prints of a result.
func whole(result any) any {
	switch r := result.(type) {
	case table:
		return r.rows
	case page:
		return r.object
	default:
		return result
	}
}

// WriteText writes the object, and its lists as tables.
func (p page) WriteText(w io.Writer) error {
	raw, err := json.Marshal(p.object)
	if err != nil {
		return err
	}
	return p.writeObject(w, raw, "")
}

// writeObject writes plain members first, then each object and list below its name.
func (p page) writeObject(w io.Writer, raw json.RawMessage, indent string) error {
	fields, err := fieldsOf(raw)
	if err != nil {
		return err
	}
	lines := aligned(w)
	for _, f := range fields {
		if !f.nested() {
			fmt.Fprintf(lines, "%s%s\t%s\n", indent, f.name, f.text())
		}
	}
	err = lines.Flush()
	for _, f := range fields {
		if f.nested() {
			fmt.Fprintf(w, "\n%s%s\n", indent, f.name)
			err = errors.Join(err, p.writeNested(w, f, indent+"  "))
		}
	}
	return err
}

func (p page) writeNested(w io.Writer, f field, indent string) error {
	if f.value[0] == '{' {
		return p.writeObject(w, f.value, indent)
	}
	if columns, given := p.lists[f.name]; given {
		return writeTable(w, f.value, columns, indent)
	}
	var items []json.RawMessage
	err := json.Unmarshal(f.value, &items)
	for i, item := range items {
		if item[0] != '{' {
			fmt.Fprintln(w, indent+field{value: item}.text())
			continue
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		err = errors.Join(err, p.writeObject(w, item, indent))
	}
	return err
}

// field is one member of a result, in the order of its JSON.
type field struct {
	name  string
	value json.RawMessage
}

func fieldsOf(raw []byte) ([]field, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	var fields []field
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		fields = append(fields, field{fmt.Sprint(name), value})
	}
	return fields, nil
}

// nested reports whether the member needs lines of its own: an object, a list of objects, or one of sentences.
func (f field) nested() bool {
	value := bytes.TrimLeft(f.value, "[ \n")
	return len(value) > 0 && value[0] == '{' || f.value[0] == '[' && bytes.Contains(value, []byte(" "))
}

// text returns a plain member for a person: moments in UTC without fractions, lists separated by commas.
func (f field) text() string {
	var value any
	if err := json.Unmarshal(f.value, &value); err != nil {
		return string(f.value)
	}
	switch v := value.(type) {
	case nil:
		return nothing
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return at.UTC().Format(shownTime)
		}
		return shownText(v)
	case []any:
		parts := lists.Of(v, func(part any) string { return fmt.Sprint(part) })
		return shownText(strings.Join(parts, ","))
	default:
		return string(f.value)
	}
}

// shownText returns text as it is shown within a line.
func shownText(text string) string {
	return cmp.Or(strings.NewReplacer("\n", " ", "\t", " ").Replace(terminal.Clean(text)), nothing)
}

// explain returns an error for the operator, with every violation on its own line.
func explain(err error) string {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok || len(e.Violations) == 0 {
		return errs.Text(err)
	}
	return e.Detail + strings.Join(lists.Of(e.Violations, func(v errs.Violation) string {
		return "\n  " + v.Place() + " " + v.Detail
	}), "")
}

// listPart is how many rows of a table are aligned to each other.
const listPart = 500

// columns are the columns of a table. Each names a JSON member, with its title behind a colon. Of several names (a|b)
// the first one with a value counts.
type columns struct {
	names []string
	now   time.Time // moments' AGE is counted to it: the database's time, as theirs is
}

func plain(names ...string) columns { return columns{names: names} }

func aged(now time.Time, names ...string) columns { return columns{names, now} }

// table is a list with the columns that a person needs; -o json prints its rows whole.
type table struct {
	rows    any
	columns columns
}

// WriteText writes the table.
func (t table) WriteText(w io.Writer) error {
	raw, err := json.Marshal(t.rows)
	if err != nil {
		return err
	}
	return writeTable(w, raw, t.columns, "")
}

// writeTable writes a JSON array, each line behind the indent.
func writeTable(w io.Writer, rows json.RawMessage, columns columns, indent string) error {
	var each []json.RawMessage
	if err := json.Unmarshal(rows, &each); err != nil {
		return err
	}
	l := list{out: w, columns: columns, indent: indent, lines: aligned(w)}
	for _, row := range each {
		if err := l.add(row); err != nil {
			return err
		}
	}
	return l.end(nil)
}

// list prints rows while they are read, in constant memory: an array with -o json, else a table.
type list struct {
	out     io.Writer
	json    bool
	columns columns
	indent  string
	lines   *tabwriter.Writer // of the table
	rows    int
}

// stream prints the rows that each hands on.
func stream(cmd *cobra.Command, columns columns, each func(add func(row any) error) error) (any, error) {
	l := list{out: cmd.OutOrStdout(), json: asJSON(cmd), columns: columns, lines: aligned(cmd.OutOrStdout())}
	err := each(l.add)
	return (*list)(nil), errors.Join(err, l.end(err))
}

// aligned returns a writer of lines whose cells a tab ends.
func aligned(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
}

func (l *list) add(row any) error {
	var text bytes.Buffer
	if err := encoder(&text, "  ").Encode(row); err != nil {
		return err
	}
	l.rows++
	if l.json {
		before := ",\n  "
		if l.rows == 1 {
			before = "[\n  "
		}
		_, err := fmt.Fprintf(l.out, "%s%s", before, bytes.TrimSpace(text.Bytes()))
		return err
	}
	fields, err := fieldsOf(text.Bytes())
	if err != nil {
		return err
	}
	if l.rows == 1 {
		fmt.Fprintln(l.lines, l.indent+strings.Join(l.columns.titles(), "\t"))
	}
	fmt.Fprintln(l.lines, l.indent+strings.Join(l.columns.cells(fields), "\t"))
	if l.rows%listPart != 0 {
		return nil
	}
	return l.lines.Flush()
}

// end prints what is left; after a failure it leaves an array without its end, so that it is not taken for whole.
func (l *list) end(failed error) (err error) {
	switch {
	case failed != nil:
	case l.json && l.rows == 0:
		_, err = io.WriteString(l.out, "[]\n")
	case l.json:
		_, err = io.WriteString(l.out, "\n]\n")
	case l.rows == 0:
		_, err = io.WriteString(l.out, l.indent+"none\n")
	default:
		err = l.lines.Flush()
	}
	return err
}

func (c columns) titles() []string {
	return lists.Of(c.names, func(column string) string {
		member, title, named := strings.Cut(column, ":")
		if !named {
			title = strings.ToUpper(strings.ReplaceAll(member, "_", " "))
		}
		return title
	})
}

func (c columns) cells(fields []field) []string {
	return lists.Of(c.names, func(column string) string {
		members, title, _ := strings.Cut(column, ":")
		cell := nothing
		for _, f := range fields {
			if cell == nothing && slices.Contains(strings.Split(members, "|"), f.name) {
				cell = f.text()
			}
		}
		if moment, err := time.Parse(shownTime, cell); err == nil {
			switch title {
			case "AGE", "OLDEST":
				cell = long(max(c.now.Sub(moment), 0))
			case "NEXT":
				cell = "in " + long(max(moment.Sub(c.now), 0))
			}
		}
		return cell
	})
}

// long returns a duration in its largest unit.
func long(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*24*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

// limitFlag adds --limit.
func limitFlag(cmd *cobra.Command) *uint32 {
	return cmd.Flags().Uint32("limit", defaultLimit, "how many at most; 0: all of them")
}
