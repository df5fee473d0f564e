package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
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
type texter interface{ writeText(w io.Writer) error }

// printText writes a result for a person, from the same JSON that -o json prints.
func printText(w io.Writer, result any) error {
	if t, ok := result.(texter); ok {
		return t.writeText(w)
	}
	return page{object: result}.writeText(w)
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

func (p page) writeText(w io.Writer) error {
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
		parts := make([]string, len(v))
		for i, part := range v {
			parts[i] = fmt.Sprint(part)
		}
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
	lines := []string{e.Detail}
	for _, v := range e.Violations {
		lines = append(lines, fmt.Sprintf("  %s %s", v.Place(), v.Detail))
	}
	return strings.Join(lines, "\n")
}
