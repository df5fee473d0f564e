package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/terminal"
)

const (
	columnGap   = 2
	leastColumn = 8   // of a column that is cut
	listPart    = 500 // rows of a table that are aligned to each other
)

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
	l := list{out: w, columns: columns, indent: indent}
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
	lines   [][]string // not printed yet
	rows    int
}

func newList(cmd *cobra.Command, columns columns) *list {
	o, _ := cmd.Flags().GetString("output")
	return &list{out: cmd.OutOrStdout(), json: o == "json", columns: columns}
}

func (l *list) add(row any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("  ", "  ")
	if err := encoder.Encode(row); err != nil {
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
	if l.lines = append(l.lines, l.columns.cells(fields)); len(l.lines) < listPart {
		return nil
	}
	return l.flush()
}

// end prints what is left; after a failure it leaves an array without its end, so that it is not taken for whole.
func (l *list) end(failed error) error {
	text := ""
	switch {
	case failed != nil:
		return nil
	case l.json && l.rows == 0:
		text = "[]\n"
	case l.json:
		text = "\n]\n"
	case l.rows == 0:
		text = l.indent + "none\n"
	default:
		return l.flush()
	}
	_, err := io.WriteString(l.out, text)
	return err
}

// flush prints the lines, the first ones below the titles. On a terminal they keep within its width: the widest columns
// are cut, but never an id, and the last one wraps.
func (l *list) flush() error {
	titles := l.columns.titles()
	widths := make([]int, len(titles))
	for _, line := range append(l.lines, titles) {
		for i, text := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	if width := terminal.Width(l.out); width > 0 {
		l.columns.fit(widths, width-len(l.indent))
	}
	if l.rows == len(l.lines) {
		l.lines = slices.Insert(l.lines, 0, titles)
	}
	for _, line := range l.lines {
		if err := l.write(line, widths); err != nil {
			return err
		}
	}
	l.lines = l.lines[:0]
	return nil
}

func (l *list) write(line []string, widths []int) error {
	last := len(line) - 1
	text := l.indent
	for i, cell := range line[:last] {
		if n := utf8.RuneCountInString(cell); n > widths[i] {
			cell = string([]rune(cell)[:widths[i]-1]) + "…"
		}
		text += fmt.Sprintf("%-*s", widths[i]+columnGap, cell)
	}
	behind := "\n" + strings.Repeat(" ", utf8.RuneCountInString(text))
	text += strings.Join(wrap(line[last], widths[last]), behind)
	_, err := fmt.Fprintln(l.out, strings.TrimRight(text, " "))
	return err
}

// fit takes what is too much from the widest columns that are no ids.
func (c columns) fit(widths []int, most int) {
	for {
		total, at := columnGap*(len(widths)-1), -1
		for i, width := range widths {
			total += width
			if member, _, _ := strings.Cut(c.names[i], ":"); member != "id" && !strings.HasSuffix(member, "_id") &&
				(at < 0 || width > widths[at]) {
				at = i
			}
		}
		if total <= most || at < 0 || widths[at] <= leastColumn {
			return
		}
		widths[at]--
	}
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

// wrap breaks text at its blanks, or within a word that is longer than a line.
func wrap(text string, width int) []string {
	var lines []string
	for rest := []rune(text); ; {
		if len(rest) <= width {
			return append(lines, string(rest))
		}
		at := width
		if blank := strings.LastIndexByte(string(rest[:width+1]), ' '); blank > 0 {
			at = utf8.RuneCountInString(string(rest[:width+1])[:blank])
		}
		lines = append(lines, string(rest[:at]))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
	}
}

// limitFlag adds --limit.
func limitFlag(cmd *cobra.Command) *uint32 {
	return cmd.Flags().Uint32("limit", defaultLimit, "how many at most; 0: all of them")
}
