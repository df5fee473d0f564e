package openapitest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Call is a request that the document describes, or one that it nearly does.
type Call struct {
	Operation string // operationId
	Method    string
	Path      string // with the query
	Header    http.Header
	Body      string
	Security  string // a scheme of the document that the operation takes; "" for none
	Hostile   bool   // something in it is made to be refused
	Allowed   bool   // the body is one by its schema
}

// Calls makes calls of every operation: valid values, those at the edges of what the schemas allow, and hostile ones.
// It makes the same ones of the same random numbers, and is for one goroutine.
type Calls struct {
	*V
	*rand.Rand
	operations []operation
	hostile    int // of 100 values
	used       bool
}

type operation struct {
	path, method string
	members      object
	parameters   []any
	body         object             // its schema; nil: none
	accepts      *jsonschema.Schema // as it is published
}

// Calls returns a maker of calls. Operations are left out when skip reports so.
func (v *V) Calls(random *rand.Rand, skip func(operationID string) bool) (*Calls, error) {
	c := &Calls{V: v, Rand: random}
	compiler, err := compilerOf(v.published)
	if err != nil {
		return nil, err
	}
	paths := v.document["paths"].(object)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path].(object)
		shared, _ := item["parameters"].([]any)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			members, ok := item[method].(object)
			if !ok || skip(members["operationId"].(string)) {
				continue
			}
			own, _ := members["parameters"].([]any)
			o := operation{path, strings.ToUpper(method), members, slices.Concat(shared, own), nil, nil}
			pointer := "/paths/" + escape(path) + "/" + method + "/requestBody/content/application~1json/schema"
			if schema, ok := v.at(pointer).(object); ok {
				o.body = schema
				if o.accepts, err = compiler.Compile(base + "#" + pointer); err != nil {
					return nil, fmt.Errorf("compile %s: %w", pointer, err)
				}
			}
			c.operations = append(c.operations, o)
		}
	}
	return c, nil
}

// Next returns a call. Two of five have nothing hostile in them.
func (c *Calls) Next() Call {
	o := c.operations[c.IntN(len(c.operations))]
	c.hostile, c.used = []int{0, 0, 3, 10, 40}[c.IntN(5)], false
	call := Call{Operation: o.members["operationId"].(string), Method: o.method, Header: http.Header{}}
	if c.bad() {
		call.Method = c.pick("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
	}
	path, query := o.path, []string{}
	for _, p := range o.parameters {
		parameter := c.resolve(p)
		name, in := parameter["name"].(string), parameter["in"].(string)
		required, _ := parameter["required"].(bool)
		if in != "path" && !required && c.IntN(2) == 0 {
			continue
		}
		text := c.text(parameter)
		switch in {
		case "path":
			path = strings.Replace(path, "{"+name+"}", url.PathEscape(text), 1)
		case "query":
			query = append(query, name+"="+url.QueryEscape(text))
		case "header":
			call.Header.Set(name, strings.Map(visible, text))
		}
	}
	if c.bad() {
		query = append(query, c.pick("%zz=1", "a;b", "limit=1&limit=2", "page=", "x=%00", "=", "&&", "filter=%ff",
			"cursor=x"))
	}
	if call.Path = path; len(query) > 0 {
		call.Path += "?" + strings.Join(query, "&")
	}
	if o.body != nil {
		call.Body = c.json(o.body, 0)
		call.Header.Set("Content-Type", "application/json")
		if c.bad() {
			call.Header.Set("Content-Type", c.pick("text/plain", "application/json; charset=latin1", "application/xml", "x",
				"application/JSON"))
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(call.Body)))
		call.Allowed = err == nil && o.accepts.Validate(value) == nil
	}
	call.Security = c.security(o)
	if c.bad() {
		call.Security = "none"
	}
	call.Hostile = c.used
	return call
}

// security returns one of the schemes that the operation takes.
func (c *Calls) security(o operation) string {
	schemes, _ := o.members["security"].([]any)
	if len(schemes) == 0 {
		return ""
	}
	for name := range schemes[c.IntN(len(schemes))].(object) {
		return name
	}
	return ""
}

// bad draws whether the next value is hostile, and reports whether it is.
func (c *Calls) bad() bool {
	hostile := c.IntN(100) < c.hostile
	c.used = c.used || hostile
	return hostile
}

func (c *Calls) pick(texts ...string) string { return texts[c.IntN(len(texts))] }

func (c *Calls) resolve(value any) object {
	members := value.(object)
	if to, ok := members["$ref"].(string); ok {
		return c.at(to[1:]).(object)
	}
	return members
}

// visible keeps what a header may have.
func visible(r rune) rune {
	if r < ' ' || r == 0x7f {
		return -1
	}
	return r
}
