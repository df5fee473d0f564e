package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	lineWidth   = 80 // a terminal's; tables keep within it
	columnGap   = 2
	leastColumn = 8 // of a column that is cut
)

// table is a list with the columns that a person needs; -o json prints its rows whole.
type table struct {
	rows    any
	columns columns
}

// columns are those of a table. Each is the name of a JSON member, or of several of which the first that says something
// counts (a|b), and its title behind a colon.
type columns struct {
	names []string
	now   time.Time // moments' AGE is counted to it: the database's time, as theirs is
}

func plain(names ...string) columns { return columns{names: names} }

func aged(now time.Time, names ...string) columns { return columns{names, now} }

func (t table) writeText(w io.Writer) error {
	raw, err := json.Marshal(t.rows)
	if err != nil {
		return err
	}
	return writeTable(w, raw, t.columns, "")
}

// writeTable writes a JSON array, each line behind the indent. The first column is never cut and the last one wraps.
func writeTable(w io.Writer, list json.RawMessage, columns columns, indent string) error {
	var rows []json.RawMessage
	if err := json.Unmarshal(list, &rows); err != nil {
		return err
	}
	return writeRows(w, rows, columns, indent, true)
}

// writeRows writes rows with or without the titles above them.
func writeRows(w io.Writer, rows []json.RawMessage, columns columns, indent string, titled bool) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, indent+"none")
		return err
	}
	lines := [][]string{titles(columns.names)}
	for _, row := range rows {
		fields, err := fieldsOf(row)
		if err != nil {
			return err
		}
		lines = append(lines, cells(fields, columns))
	}
	widths := fit(widest(lines), lineWidth-len(indent))
	if !titled {
		lines = lines[1:]
	}
	for _, line := range lines {
		if err := writeRow(w, line, widths, indent); err != nil {
			return err
		}
	}
	return nil
}

func titles(columns []string) []string {
	list := make([]string, len(columns))
	for i, column := range columns {
		member, title, named := strings.Cut(column, ":")
		if !named {
			title = strings.ToUpper(strings.ReplaceAll(member, "_", " "))
		}
		list[i] = title
	}
	return list
}

func cells(fields []field, columns columns) []string {
	list := make([]string, len(columns.names))
	for i, column := range columns.names {
		members, title, _ := strings.Cut(column, ":")
		list[i] = nothing
		for member := range strings.SplitSeq(members, "|") {
			at := slices.IndexFunc(fields, func(f field) bool { return f.name == member })
			if at < 0 {
				continue
			}
			if list[i] = fields[at].text(); list[i] == nothing {
				continue
			}
			switch title {
			case "AGE", "OLDEST":
				list[i] = age(list[i], columns.now)
			case "NEXT":
				list[i] = until(list[i], columns.now)
			}
			break
		}
	}
	return list
}

// age returns how long ago a moment was, in its largest unit.
func age(moment string, now time.Time) string {
	at, err := time.Parse(shownTime, moment)
	if err != nil {
		return moment
	}
	return long(max(now.Sub(at), 0))
}

// until returns how long it is to a moment.
func until(moment string, now time.Time) string {
	at, err := time.Parse(shownTime, moment)
	switch {
	case err != nil:
		return moment
	case !at.After(now):
		return "now"
	default:
		return "in " + long(at.Sub(now))
	}
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

func widest(lines [][]string) []int {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, text := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	return widths
}

// fit takes what is too much from the widest columns but the first.
func fit(widths []int, most int) []int {
	for {
		total := (len(widths) - 1) * columnGap
		for _, width := range widths {
			total += width
		}
		at := 0
		for i := 1; i < len(widths); i++ {
			if at == 0 || widths[i] > widths[at] {
				at = i
			}
		}
		if total <= most || at == 0 || widths[at] <= leastColumn {
			return widths
		}
		widths[at] = max(widths[at]-(total-most), leastColumn)
	}
}

func writeRow(w io.Writer, line []string, widths []int, indent string) error {
	last := len(line) - 1
	var text strings.Builder
	text.WriteString(indent)
	before := len(indent)
	for i := range last {
		text.WriteString(pad(cut(line[i], widths[i]), widths[i]+columnGap))
		before += widths[i] + columnGap
	}
	for i, part := range wrap(line[last], widths[last]) {
		if i > 0 {
			text.WriteString("\n" + strings.Repeat(" ", before))
		}
		text.WriteString(part)
	}
	_, err := fmt.Fprintln(w, strings.TrimRight(text.String(), " "))
	return err
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0))
}

func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// wrap breaks text at its blanks, or within a word that is longer than a line.
func wrap(text string, width int) []string {
	var lines []string
	for rest := []rune(text); ; {
		if len(rest) <= width {
			return append(lines, string(rest))
		}
		at := width
		for i := width; i > 0; i-- {
			if rest[i] == ' ' {
				at = i
				break
			}
		}
		lines = append(lines, string(rest[:at]))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
	}
}
