package config

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"text/tabwriter"
)

// Variable is one row of the help and of configuration.md's table.
type Variable struct{ Name, Default, Doc string }

// Variables lists every variable in the struct's order.
func Variables() []Variable {
	t := reflect.TypeFor[Config]()
	list := make([]Variable, 0, t.NumField())
	for f := range t.Fields() {
		name := f.Tag.Get("env")
		shown := cmp.Or(docs[name].shown, f.Tag.Get("envDefault"), "empty")
		list = append(list, Variable{Name: name, Default: shown, Doc: docs[name].sentence})
	}
	return list
}

// PrintHelp writes the variables for a terminal.
func PrintHelp(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range Variables() {
		if _, err := fmt.Fprintf(tw, "  %s\t%s (default: %s)\n", v.Name, v.Doc, v.Default); err != nil {
			return err
		}
	}
	return tw.Flush()
}

// nameOf returns the variable's name behind a field's name.
func nameOf(field string) string {
	if f, ok := reflect.TypeFor[Config]().FieldByName(field); ok {
		return f.Tag.Get("env")
	}
	return field
}
