package openapitest

import (
	"bytes"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// An example that the schema refuses teaches the wrong thing.
func TestDocument_every_schema_has_an_example_that_it_accepts(t *testing.T) {
	t.Parallel()
	raw, err := httpapi.OpenAPIDocument()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	strict(document.(object))
	if err := compiler.AddResource(base, document); err != nil {
		t.Fatal(err)
	}
	schemas := document.(object)["components"].(object)["schemas"].(object)
	if len(schemas) < 30 {
		t.Fatalf("only %d schemas", len(schemas))
	}
	for name, s := range schemas {
		example, has := s.(object)["example"]
		if !has {
			t.Errorf("%s has no example", name)
			continue
		}
		schema, err := compiler.Compile(base + "#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(example); err != nil {
			t.Errorf("the example of %s: %v", name, err)
		}
	}
}
