package config

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"text/tabwriter"

	"github.com/supplyhub/supplyhub/deployments"
)

// rows are those of configuration.md's table: a variable, its default, and its sentence.
var rows = regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| (.+) \\| (.+) \\|$")

// PrintHelp writes the table for a terminal.
func PrintHelp(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows.FindAllStringSubmatch(deployments.Configuration, -1) {
		fmt.Fprintf(tw, "  %s\t%s (default: %s)\n", row[1], row[3], row[2])
	}
	return tw.Flush()
}

// Variables returns the names of all variables, in the struct's order.
func Variables() (names []string) {
	for f := range reflect.TypeFor[Config]().Fields() {
		names = append(names, f.Tag.Get("env"))
	}
	return names
}

// nameOf returns the variable's name behind a field's name.
func nameOf(field string) string {
	if f, ok := reflect.TypeFor[Config]().FieldByName(field); ok {
		return f.Tag.Get("env")
	}
	return field
}
