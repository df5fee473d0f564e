package openapitest

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// hostileTexts are JSON texts that a string, or anything, may be sent as.
var hostileTexts = []string{`""`, `" "`, `"\u0000"`, `"\ud800"`, "\"\xff\"", `"\u202e\u200b"`, `"'; DROP TABLE x; --"`,
	`"../../etc/passwd"`, `"\r\nX: y"`, `"𐐷🧱"`, `"${jndi:x}"`, `"%00"`, `"\u0085"`, `"\ufeff"`, `null`, `true`, `0`, `-0`,
	`-1`, `1.5`, `1e400`, `-1e308`, `9223372036854775807`, `9223372036854775808`, `-9223372036854775808`, `2147483648`,
	`1e2`, `[]`, `{}`, `[null]`, `[[[[[[]]]]]]`, `{"a":1,"a":2}`, `"0000-00-00"`, `"2026-02-30"`,
	`"9999-12-31T23:59:60Z"`, `"2026-11-24t00:00:00z"`, `""x`, `"`, ``}

// edgeNumbers are tried where a schema has no bound of its own.
var edgeNumbers = []string{"0", "1", "-1", "2147483647", "-2147483648", "9223372036854775807",
	"-9223372036854775808", "9007199254740993"}

// json returns a value of the schema as JSON, or a hostile one in its place.
func (c *Calls) json(schema object, depth int) string {
	if c.bad() {
		if c.IntN(20) == 0 {
			return `"` + strings.Repeat("x", 1<<(8+c.IntN(10))) + `"`
		}
		return c.pick(hostileTexts...)
	}
	schema = c.resolve(schema)
	for _, choice := range []string{"oneOf", "anyOf"} {
		if of, ok := schema[choice].([]any); ok {
			return c.json(of[c.IntN(len(of))].(object), depth)
		}
	}
	if enum, ok := schema["enum"].([]any); ok {
		return encoded(enum[c.IntN(len(enum))])
	}
	if only, ok := schema["const"]; ok {
		return encoded(only)
	}
	kinds := types(schema)
	switch kinds[c.IntN(len(kinds))] {
	case "object":
		return c.object(schema, depth)
	case "array":
		return c.array(schema, depth)
	case "integer":
		return c.number(schema, false)
	case "number":
		return c.number(schema, true)
	case "boolean":
		return c.pick("true", "false")
	case "null":
		return "null"
	default:
		return c.string(schema)
	}
}

func encoded(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was read as JSON
	}
	return string(text)
}

func (c *Calls) object(schema object, depth int) string {
	properties, _ := schema["properties"].(object)
	required, _ := schema["required"].([]any)
	var members []string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if !slices.Contains(required, any(name)) && c.IntN(2) == 0 || c.bad() {
			continue
		}
		if c.bad() {
			name = c.pick(strings.ToUpper(name), name+" ", "__proto__", `\u0000`)
			members = append(members, `"`+name+`":1`)
			continue
		}
		members = append(members, `"`+name+`":`+c.json(properties[name].(object), depth+1))
	}
	if c.bad() && len(members) > 0 {
		members = append(members, members[0]) // twice
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (c *Calls) array(schema object, depth int) string {
	least, _ := bound(schema, "minItems")
	items := make([]string, int(least)+c.IntN(3))
	for i := range items {
		items[i] = c.json(schema["items"].(object), depth+1)
	}
	return "[" + strings.Join(items, ",") + "]"
}

// number returns one at a bound of the schema, or between them.
func (c *Calls) number(schema object, fraction bool) string {
	least, hasLeast := bound(schema, "minimum")
	most, hasMost := bound(schema, "maximum")
	edges := edgeNumbers
	if hasLeast || hasMost {
		edges = []string{"1", strconv.FormatFloat(least, 'f', -1, 64)}
		if hasMost {
			edges = append(edges, strconv.FormatFloat(most, 'f', -1, 64))
		}
	}
	if schema["format"] == "int32" && !hasMost {
		edges = append(edges[:0:0], "1", "2147483647")
	}
	if fraction && c.IntN(2) == 0 {
		return c.pick("0.1", "90.5", "25.25", "0.000001")
	}
	return edges[c.IntN(len(edges))]
}

func bound(schema object, name string) (float64, bool) {
	number, ok := schema[name].(json.Number)
	if !ok {
		return 0, false
	}
	value, err := number.Float64()
	return value, err == nil
}

// string returns a text that its format, pattern and lengths allow.
func (c *Calls) string(schema object) string {
	most, hasMost := bound(schema, "maxLength")
	example, _ := schema["example"].(string)
	pattern, _ := schema["pattern"].(string)
	switch format := schema["format"]; {
	case format == "date-time":
		return c.pick(`"2026-11-24T07:00:00Z"`, `"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59.999999Z"`,
			`"2026-11-24T07:00:00.1-03:00"`)
	case format == "date":
		return c.pick(`"2026-11-24"`, `"2024-02-29"`)
	case format == "uri": // no call may leave this machine
		return c.pick(`"http://127.0.0.1:1/x"`, `"http://localhost:1"`, `"http://[::1]:1/b%C3%A9"`)
	case hasMost && c.IntN(3) == 0:
		return `"` + strings.Repeat("é", int(most)) + `"`
	case strings.Contains(pattern, "ns|us"):
		return c.pick(`"0s"`, `"1ms"`, `"0"`, `"0.5ms"`, `"1ms1us"`)
	case strings.HasPrefix(pattern, "^[A-Z]{3}"):
		return `"BRL"`
	case strings.HasPrefix(pattern, "^date:eq"):
		return c.pick(`"date:eq:2026-11-20"`, `"date:eq:0001-01-01"`)
	case strings.HasPrefix(pattern, "^[0-9]+$"):
		return c.pick(`"0"`, `"1763640000"`, `"99999999999999999999"`)
	case example != "":
		return encoded(example)
	default:
		return c.pick(`"x"`, `"São Paulo"`, `"a b"`, `"日本"`, `"\"\\"`)
	}
}

// longestText is how much of a parameter is sent: a server may end a connection within a longer header section.
const longestText = 2048

// text returns a parameter's value: JSON's without the quotes.
func (c *Calls) text(parameter object) string {
	if example, ok := parameter["example"]; ok && c.IntN(3) == 0 {
		return strings.Trim(encoded(example), `"`)
	}
	value := c.json(parameter["schema"].(object), 0)
	var text string
	if json.Unmarshal([]byte(value), &text) != nil {
		text = value
	}
	return text[:min(len(text), longestText)]
}

// types returns what a schema says of its type, be it one or several.
func types(schema object) []string {
	switch t := schema["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var all []string
		for _, one := range t {
			all = append(all, one.(string))
		}
		return all
	default:
		return nil
	}
}
