package fetch

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Object is what a provider sent between braces. Providers leave members out, send null, an empty list for an empty
// object, a number for a text: a member that is missing or of another type is the zero value, and nothing but itself is
// lost. All methods work on nil.
type Object map[string]any

// longestText is how much of a text is taken, in bytes; addresses of images are the longest ones.
const longestText = 500

// Text returns a text; a number is the text that it is written in. It is a copy, and not too long: matches are kept
// while further pages are read, and would keep whole pages with them.
func (o Object) Text(name string) string {
	text := o.whole(name)
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), longestText)], ""))
}

func (o Object) whole(name string) string {
	switch v := o[name].(type) {
	case string:
		return strings.TrimSpace(v)
	case json.Number:
		return v.String()
	default:
		return ""
	}
}

// Int returns a number without its fraction, also one that is sent as a text, and whether there is one within int64.
func (o Object) Int(name string) (n int64, known bool) {
	text := o.Text(name)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f > -1<<63 && f < 1<<63) {
		return 0, false
	}
	return int64(f), true
}

// True reports whether the member is true.
func (o Object) True(name string) bool { return o[name] == true }

// Member returns the member's members.
func (o Object) Member(name string) Object {
	v, _ := o[name].(map[string]any)
	return v
}

// List returns the objects of a list, without what is in it besides.
func (o Object) List(name string) []Object {
	values, _ := o[name].([]any)
	var list []Object
	for _, value := range values {
		if v, ok := value.(map[string]any); ok {
			list = append(list, v)
		}
	}
	return list
}
