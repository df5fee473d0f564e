package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// field is one member of a result, in the order of its JSON.
type field struct{ name, value string }

// printText writes a list as a table and one object as name and value lines, from the same JSON that -o json prints.
func printText(w io.Writer, result any) error {
	raw, err := json.Marshal(result)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if raw[0] != '[' {
		fields, err := fieldsOf(raw)
		if err != nil {
			return err
		}
		for _, f := range fields {
			fmt.Fprintf(tw, "%s\t%s\n", f.name, f.value)
		}
		return tw.Flush()
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(raw, &rows); err != nil {
		return err
	}
	for i, row := range rows {
		fields, err := fieldsOf(row)
		if err != nil {
			return err
		}
		if i == 0 {
			fmt.Fprintln(tw, join(fields, func(f field) string { return strings.ToUpper(f.name) }))
		}
		fmt.Fprintln(tw, join(fields, func(f field) string { return f.value }))
	}
	if len(rows) == 0 {
		fmt.Fprintln(tw, "none")
	}
	return tw.Flush()
}

func join(fields []field, text func(field) string) string {
	cells := make([]string, len(fields))
	for i, f := range fields {
		cells[i] = text(f)
	}
	return strings.Join(cells, "\t")
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
		fields = append(fields, field{fmt.Sprint(name), cell(value)})
	}
	return fields, nil
}

func cell(value json.RawMessage) string {
	var text *string
	if json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	if text == nil {
		return "-"
	}
	return *text
}

// explain is an error for the operator, with every violation on its own line.
func explain(err error) string {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok || len(e.Violations) == 0 {
		return err.Error()
	}
	lines := []string{e.Detail}
	for _, v := range e.Violations {
		name := v.Parameter
		if v.Pointer != nil {
			name = strings.TrimPrefix(*v.Pointer, "/")
		}
		lines = append(lines, fmt.Sprintf("  %s %s", name, v.Detail))
	}
	return strings.Join(lines, "\n")
}
