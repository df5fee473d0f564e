package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// listPart is how many rows of a table are aligned to each other.
const listPart = 500

// columns are those of a table. Each is the name of a JSON member, or of several of which the first that says something
// counts (a|b), and its title behind a colon.
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

func (t table) writeText(w io.Writer) error {
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
	titles := make([]string, len(c.names))
	for i, column := range c.names {
		member, title, named := strings.Cut(column, ":")
		if !named {
			title = strings.ToUpper(strings.ReplaceAll(member, "_", " "))
		}
		titles[i] = title
	}
	return titles
}

func (c columns) cells(fields []field) []string {
	cells := make([]string, len(c.names))
	for i, column := range c.names {
		members, title, _ := strings.Cut(column, ":")
		cells[i] = nothing
		for _, f := range fields {
			if cells[i] == nothing && slices.Contains(strings.Split(members, "|"), f.name) {
				cells[i] = f.text()
			}
		}
		if moment, err := time.Parse(shownTime, cells[i]); err == nil {
			switch title {
			case "AGE", "OLDEST":
				cells[i] = long(max(c.now.Sub(moment), 0))
			case "NEXT":
				cells[i] = "in " + long(max(moment.Sub(c.now), 0))
			}
		}
	}
	return cells
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
