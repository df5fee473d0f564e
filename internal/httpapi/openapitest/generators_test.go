package openapitest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/supplyhub/supplyhub/internal/httpapi"
)

func published(t *testing.T) object {
	t.Helper()
	raw, err := httpapi.OpenAPIDocument()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return document.(object)
}

// walk visits every object of the document but those of its examples.
func walk(value any, pointer string, visit func(pointer string, members object)) {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			walk(v, pointer+"/-", visit)
		}
	case object:
		visit(pointer, value)
		for name, v := range value {
			if isExample := name == "example" || name == "examples"; !isExample || strings.HasSuffix(pointer, "/properties") {
				walk(v, pointer+"/"+escape(name), visit)
			}
		}
	}
}

// Without a format a generator takes 32 bits for an integer, and single precision for a number; without a type it makes
// an enum of anything; a closed answer breaks its clients with the next member.
func TestDocument_has_what_generators_need(t *testing.T) {
	t.Parallel()
	integers := 0
	walk(published(t), "", func(pointer string, schema object) {
		format, _ := schema["format"].(string)
		if slices.Contains(types(schema), "integer") {
			if integers++; format != "int32" && format != "int64" {
				t.Errorf("%s is an integer of the format %q", pointer, format)
			}
		}
		if slices.Contains(types(schema), "number") && format != "double" {
			t.Errorf("%s is a number of the format %q", pointer, format)
		}
		_, isEnum := schema["enum"].([]any)
		_, isConst := schema["const"]
		if (isEnum || isConst) && len(types(schema)) != 1 && !strings.HasSuffix(pointer, "/properties") {
			t.Errorf("%s is an enum or a const without one type", pointer)
		}
		if schema["additionalProperties"] == false {
			t.Errorf("%s is closed", pointer)
		}
	})
	if integers < 50 {
		t.Fatalf("only %d integers were seen", integers)
	}
}

// Generators make a type of each component, of whatever kind it is.
func TestDocument_gives_no_name_twice(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for kind, components := range published(t)["components"].(object) {
		for name := range components.(object) {
			key := strings.ToLower(name)
			if before := seen[key]; before != "" {
				t.Errorf("%s is a name of %s and of %s", name, before, kind)
			}
			seen[key] = kind
		}
	}
	if len(seen) < 60 {
		t.Fatalf("only %d names were seen", len(seen))
	}
}

// A generator may lose the type of an answer that is a reference, and the method of a webhook that has a security
// scheme.
func TestDocument_writes_successes_and_the_webhooks_signature_where_they_are(t *testing.T) {
	t.Parallel()
	document := published(t)
	successes := 0
	for path, item := range document["paths"].(object) {
		for method, operation := range item.(object) {
			members, _ := operation.(object)
			responses, _ := members["responses"].(object)
			for status, response := range responses {
				if _, refers := response.(object)["$ref"]; strings.HasPrefix(status, "2") && refers {
					t.Errorf("%s %s %s is a reference", method, path, status)
				} else if strings.HasPrefix(status, "2") {
					successes++
				}
			}
		}
	}
	if successes < 25 {
		t.Fatalf("only %d answers were seen", successes)
	}
	event := document["webhooks"].(object)["materialRequestEstimated"].(object)["post"].(object)
	if security, _ := event["security"].([]any); security == nil || len(security) > 0 {
		t.Errorf("the webhook has the security %v", event["security"])
	}
	var headers []string
	for _, p := range event["parameters"].([]any) {
		headers = append(headers, p.(object)["name"].(string))
	}
	if want := []string{"webhook-id", "webhook-timestamp", "webhook-signature"}; !slices.Equal(headers, want) {
		t.Errorf("the webhook has the headers %q, not %q", headers, want)
	}
}
