package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/deployments"
)

// A default that needs words begins with the value: "0: none".
func TestConfiguration_has_every_variable_in_order_with_its_default(t *testing.T) {
	t.Parallel()
	table := rows.FindAllStringSubmatch(deployments.Configuration, -1)
	if names := Variables(); len(names) != len(table) {
		t.Fatalf("configuration.md has %d variables, Config %d", len(table), len(names))
	}
	for i := range table {
		field := reflect.TypeFor[Config]().Field(i)
		name, value, shown := field.Tag.Get("env"), field.Tag.Get("envDefault"), table[i][2]
		if table[i][1] != name {
			t.Errorf("row %d is of %s, the field of %s", i+1, table[i][1], name)
		}
		if value != "" && shown != value && !strings.HasPrefix(shown, value+":") {
			t.Errorf("%s: the default is %s, the table says %s", name, value, shown)
		}
	}
}
