package httpapi

import (
	"bytes"
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// Decode reads a T strictly and names EVERY value of a wrong type by its JSON pointer; *T is then what could be read.
// *T is nil when the text could not be read to its end. Unknown members are ignored; null is taken for every member and
// leaves nil. Required members and ranges are the caller's rules.
func Decode[T any](raw []byte) (*T, []errs.Violation) {
	if tooDeep(raw) {
		return nil, []errs.Violation{errs.At("", "is nested too deeply")}
	}
	v := new(T)
	if !needsStrictPass(raw) && json.Unmarshal(raw, v) == nil {
		return v, nil
	}
	v = new(T)
	c := collector{raw: raw}
	err := json.Unmarshal(raw, v, json.WithUnmarshalers(json.UnmarshalFromFunc(c.value)), lenient())
	if !errors.Is(err, errFull) {
		err = cmp.Or(err, c.walk())
	}
	if err != nil {
		c.stopped(err)
		return nil, c.violations
	}
	return v, c.violations
}

// needsStrictPass reports whether raw may hold what json.Unmarshal accepts and we do not: NUL, or null elsewhere than
// as a member's value.
func needsStrictPass(raw []byte) bool {
	if bytes.Contains(raw, []byte(`\u0000`)) {
		return true
	}
	for rest := raw; ; {
		at := bytes.Index(rest, []byte("null"))
		if at < 0 {
			return false
		}
		if before := bytes.TrimRight(rest[:at], " \t\r\n"); !bytes.HasSuffix(before, []byte(":")) {
			return true
		}
		rest = rest[at+len("null"):]
	}
}

// maxDepth is far above what a body has. The library takes 10,000 levels, at hundreds of bytes each.
const maxDepth = 200

// tooDeep reports whether arrays and objects are nested more than maxDepth deep.
func tooDeep(raw []byte) bool {
	if bytes.Count(raw, []byte("{"))+bytes.Count(raw, []byte("[")) <= maxDepth {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch b := raw[i]; {
		case b == '"':
			quoted = !quoted
		case quoted && b == '\\':
			i++
		case quoted:
		case b == '{' || b == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return false
}

// lenient takes what walk names, so that the text is read to its end.
func lenient() json.Options {
	return json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

var errFull = errors.New("enough violations")

// collector gathers the violations of one text: at most maxViolations, and as many as their pointers stay small next to
// the text. A pointer is built whole, and one name, or a thousand levels, may fill the text.
type collector struct {
	raw        []byte
	built      int    // bytes of pointers
	unquoted   []byte // of the last string
	violations []errs.Violation
}

const (
	longestPointer = 1024
	pointersPerRaw = 4        // times the text that all pointers may come to
	pointersUsual  = 64 << 10 // and that many bytes for a short text with many violations
)

func (c *collector) add(pointer jsontext.Pointer, detail string) error {
	c.built += len(pointer)
	if len(pointer) > longestPointer {
		for len(pointer) > longestPointer {
			pointer = pointer.Parent()
		}
		pointer = jsontext.Pointer(strings.Clone(string(pointer))) // a parent is a part of the whole, which it would keep
	}
	c.violations = append(c.violations, errs.At(strings.ToValidUTF8(string(pointer), "\uFFFD"), detail))
	if len(c.violations) >= maxViolations || c.built > pointersPerRaw*len(c.raw)+pointersUsual {
		return errFull
	}
	return nil
}

// value is called for every value before it is decoded into v. It takes the value when it is a leaf or has the wrong
// type; errors.ErrUnsupported leaves it to the library, which then asks for the values inside.
func (c *collector) value(dec *jsontext.Decoder, v any) error {
	kind, target := dec.PeekKind(), reflect.TypeOf(v).Elem()
	wanted, fits := composite(v, target, kind)
	switch {
	case kind == 0: // not JSON: the library says where
		return errors.ErrUnsupported
	case kind == 'n' && (target.Kind() == reflect.Interface || isMember(dec)):
		return errors.ErrUnsupported
	case fits:
		return errors.ErrUnsupported
	case wanted != "":
		if err := dec.SkipValue(); err != nil {
			return err
		}
		return c.add(dec.StackPointer(), wanted)
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if kind == 'n' || json.Unmarshal(raw, v, lenient()) != nil && !readsWhole(raw, v, target) {
		return c.add(dec.StackPointer(), expectation(v, target, raw))
	}
	return nil
}

// readsWhole reports whether a number was read into an integer, as its value is whole: 3.0 and 3e0 are 3, as JSON
// Schema has it.
func readsWhole(raw jsontext.Value, v any, target reflect.Type) bool {
	if raw.Kind() != '0' || target.Kind() < reflect.Int || target.Kind() > reflect.Uint64 {
		return false
	}
	text, whole := wholeNumber(string(raw))
	return whole && json.Unmarshal([]byte(text), v) == nil
}

// beyond is more zeros than an integer of 64 bits has digits.
const beyond = 20

// wholeNumber returns a JSON number in digits alone when its value is whole. One that is far beyond int64 is shortened,
// and still beyond it.
func wholeNumber(number string) (digits string, whole bool) {
	number, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	power, _ := strconv.Atoi(exponent) // out of range it is the largest or smallest
	power = min(max(power, -1<<30), 1<<30)
	unsigned, negative := strings.CutPrefix(number, "-")
	before, after, _ := strings.Cut(unsigned, ".")
	all := strings.TrimLeft(before+after, "0")
	digits = strings.TrimRight(all, "0")
	zeros := power - len(after) + len(all) - len(digits)
	switch {
	case digits == "":
		return "0", true
	case zeros < 0:
		return "", false
	}
	digits += strings.Repeat("0", min(zeros, beyond))
	if negative {
		digits = "-" + digits
	}
	return digits, true
}

// isMember reports whether the value to come is an object's member.
func isMember(dec *jsontext.Decoder) bool {
	depth := dec.StackDepth()
	if depth == 0 {
		return false
	}
	kind, _ := dec.StackIndex(depth)
	return kind == '{'
}

// composite reports for a target that holds other values what it wants and whether the kind is that. For a leaf both
// are zero.
func composite(v any, target reflect.Type, kind jsontext.Kind) (wanted string, fits bool) {
	if target.Kind() == reflect.Pointer || target.Kind() == reflect.Interface {
		return errs.Required, kind != 'n' // null for an item is named here, in the order of the text
	}
	if readsItself(v) {
		return "", false
	}
	switch target.Kind() {
	case reflect.Struct, reflect.Map:
		return "must be an object", kind == '{'
	case reflect.Slice, reflect.Array:
		return "must be an array", kind == '['
	default:
		return "", false
	}
}

func readsItself(v any) bool {
	switch v.(type) {
	case json.UnmarshalerFrom, json.Unmarshaler, encoding.TextUnmarshaler:
		return true
	}
	return false
}

// expectation returns what a leaf had to be.
func expectation(v any, target reflect.Type, raw jsontext.Value) string {
	if _, ok := v.(*time.Time); ok {
		return "must be a date and time by RFC 3339, such as 2026-11-20T12:00:00Z"
	}
	if readsItself(v) {
		return "has the wrong form"
	}
	switch target.Kind() {
	case reflect.String:
		return "must be a string"
	case reflect.Bool:
		return "must be true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if _, whole := wholeNumber(string(raw)); raw.Kind() == '0' && whole {
			largest := int64(1)<<(target.Bits()-1) - 1
			return fmt.Sprintf("must be an integer from %d to %d", -largest-1, largest)
		}
		return "must be an integer"
	case reflect.Float32, reflect.Float64:
		if raw.Kind() == '0' {
			return "must be a number within the range of a double"
		}
		return "must be a number"
	default:
		return "has the wrong form"
	}
}

// stopped notes why the text was not read to its end.
func (c *collector) stopped(err error) {
	if errors.Is(err, errFull) {
		if len(c.violations) < maxViolations {
			c.violations = append(c.violations, errs.At("", "breaks more rules than are listed, at places with long pointers"))
		}
		return
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		_ = c.add(c.place(e))
		return
	}
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		_ = c.add(e.JSONPointer, "has the wrong form")
		return
	}
	_ = c.add("", "must be a JSON value")
}

// place returns in our words what is wrong with the text, and where as far as that is known.
func (c *collector) place(e *jsontext.SyntacticError) (jsontext.Pointer, string) {
	at := min(max(int(e.ByteOffset), 0), len(c.raw))
	rest := c.raw[at:]
	switch {
	case len(bytes.TrimSpace(c.raw)) == 0:
		return "", "must not be empty: a JSON value is expected"
	case bytes.HasPrefix(c.raw, []byte("\xef\xbb\xbf")):
		return "", "must not begin with a byte order mark"
	case errors.Is(e, io.ErrUnexpectedEOF):
		return e.JSONPointer, fmt.Sprintf("is not valid JSON: the text ends too early, at byte %d", len(c.raw))
	case startsInvalid(rest):
		return e.JSONPointer, fmt.Sprintf("is not valid UTF-8 at byte %d", at)
	case startsSurrogate(rest):
		return e.JSONPointer, fmt.Sprintf("holds half of a surrogate pair at byte %d", at)
	default:
		return e.JSONPointer, fmt.Sprintf("is not valid JSON at byte %d", at)
	}
}

func startsInvalid(text []byte) bool {
	r, size := utf8.DecodeRune(text)
	return r == utf8.RuneError && size == 1
}

func startsSurrogate(text []byte) bool {
	return len(text) >= 4 && text[0] == '\\' && text[1] == 'u' && text[2]|0x20 == 'd' && text[3] >= '8'
}

// usualMembers is how many members an object may have had whose memory serves the next one.
const usualMembers = 8

// walk notes what decoding takes, in unknown members too: every name that an object has more than once, and every
// string and name that is no text, or has a NUL, which PostgreSQL cannot store.
func (c *collector) walk() error {
	dec := jsontext.NewDecoder(bytes.NewReader(c.raw), lenient())
	var open []map[string]bool // by depth, the names of an object so far; true: noted as repeated
	for {
		before := dec.InputOffset()
		token, err := dec.ReadToken()
		if err == io.EOF { //nolint:errorlint // documented to be returned bare
			return nil
		}
		if err != nil {
			return err
		}
		depth := dec.StackDepth()
		switch token.Kind() {
		case '{':
			for len(open) <= depth {
				open = append(open, map[string]bool{})
			}
			if len(open[depth]) > usualMembers {
				open[depth] = map[string]bool{}
			}
			clear(open[depth])
		case '"':
			var names map[string]bool
			if kind, n := dec.StackIndex(depth); kind == '{' && n%2 == 1 {
				names = open[depth]
			}
			if e := c.noText(before, dec.InputOffset()); e != nil {
				_, detail := c.place(e)
				err = c.add(dec.StackPointer(), detail)
			} else {
				err = c.text(dec, token.String(), names)
			}
			if err != nil {
				return err
			}
		}
	}
}

// noText returns what is wrong with the bytes of the string that ends the given part of the text, if it is not UTF-8 or
// has half of a surrogate pair.
func (c *collector) noText(from, to int64) *jsontext.SyntacticError {
	from += int64(bytes.IndexByte(c.raw[from:to], '"'))
	quoted := c.raw[from:to]
	var err error
	if c.unquoted, err = jsontext.AppendUnquote(c.unquoted[:0], quoted); err == nil {
		return nil
	}
	_, err = jsontext.NewDecoder(bytes.NewReader(quoted)).ReadToken()
	e, _ := errors.AsType[*jsontext.SyntacticError](err)
	if e != nil {
		e.ByteOffset += from
	}
	return e
}

// text notes what is wrong with a string or, with the names of its object so far, with a name.
func (c *collector) text(dec *jsontext.Decoder, text string, names map[string]bool) error {
	if names != nil {
		noted, repeated := names[text]
		if names[text] = repeated; repeated && !noted {
			if err := c.add(dec.StackPointer(), "is a repeated member: a name may occur only once in an object"); err != nil {
				return err
			}
		}
	}
	if strings.Contains(text, "\x00") {
		return c.add(dec.StackPointer(), "must not contain the character NUL (\\u0000)")
	}
	return nil
}
