package httpapi_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

type item struct {
	MaterialID *int64   `json:"material_id"`
	Material   *string  `json:"material"`
	VariantID  *int64   `json:"material_variant_id"`
	Variant    *string  `json:"material_variant"`
	SKU        *string  `json:"sku"`
	Width      *float64 `json:"width"`
	Height     *float64 `json:"height"`
	Depth      *float64 `json:"depth"`
	Quantity   *int64   `json:"quantity"`
}

type request struct {
	ID        *int64          `json:"id"`
	ShopCode  *string         `json:"shop_code"`
	Comment   *string         `json:"comment"`
	Materials []item          `json:"materials"`
	Others    []*item         `json:"others"`
	Tags      []string        `json:"tags"`
	At        *time.Time      `json:"at"`
	Urgent    *bool           `json:"urgent"`
	Nested    *item           `json:"nested"`
	Small     *int32          `json:"small"`
	Counts    map[string]int  `json:"counts"`
	Level     *level          `json:"level"`
	Raw       json.RawMessage `json:"raw"`
}

// level is a leaf that reads itself.
type level int

func (l *level) UnmarshalText(text []byte) error {
	if string(text) != "high" {
		return fmt.Errorf("unknown level %q", text)
	}
	*l = 1
	return nil
}

func (l level) MarshalText() ([]byte, error) { return []byte("high"), nil }

const valid = `{"id":123,"shop_code":"SP-0042","comment":"Deliver to the back door","materials":[
 {"material_id":7,"material":"Shelf","material_variant_id":2,"material_variant":"White","sku":"SHELF-90-W",
	"width":90,"height":30,"depth":25.5,"quantity":4},
 {"material_id":9,"material":"Price strip","material_variant_id":null,"material_variant":null,"sku":"STRIP-90",
	"width":90.25,"height":4,"quantity":12},
 {"material_id":11,"material":"Bracket, left and right","sku":"BRACKET-30",
	"width":30,"height":30,"depth":3,"quantity":8,"color":"black"},
 {"material_id":12,"material":"Screw","sku":"SCREW-5","width":0.5,"height":0.5,"depth":5,"quantity":64}]}`

const notJSON = "is not valid JSON at byte %d"

// at is what a violation must be: place and detail.
func at(pointer, detail string) errs.Violation { return errs.At(pointer, detail) }

func TestDecodeNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	const (
		integer  = "must be an integer"
		int64s   = "must be an integer from -9223372036854775808 to 9223372036854775807"
		number   = "must be a number"
		finite   = "must be a number within the range of a double"
		text     = "must be a string"
		object   = "must be an object"
		array    = "must be an array"
		repeated = "is a repeated member: a name may occur only once in an object"
		nul      = `must not contain the character NUL (\u0000)`
		moment   = "must be a date and time by RFC 3339, such as 2026-11-20T12:00:00Z"
	)
	for name, test := range map[string]struct {
		raw  string
		want []errs.Violation
	}{
		"valid":           {valid, nil},
		"an empty object": {` {} `, nil},
		"null for a member": {`{"id":null,"materials":null,"nested":null,"at" : null,
			"urgent":null,"counts":null,"level":null}`, nil},
		"the word null in a string":      {`{"shop_code":"null","comment":"a, null"}`, nil},
		"an unknown member":              {`{"x":{"y":[1,null,{"z":"é"}]}}`, nil},
		"another letter case is unknown": {`{"ID":"x","Shop_Code":7}`, nil},
		"the largest and smallest integer": {`{"id":9223372036854775807,"materials":[{"material_id":-9223372036854775808}]}`,
			nil},
		"an escaped backslash before u0000": {`{"comment":"\\u0000"}`, nil},
		"a surrogate pair":                  {`{"comment":"\ud83d\ude00"}`, nil},
		"a zero value is present":           {`{"id":0,"shop_code":"","urgent":false}`, nil},
		"a leaf that reads itself":          {`{"level":"high"}`, nil},
		"raw is taken as it is":             {`{"raw":[1,{"a":null}]}`, nil},
		"a moment":                          {`{"at":"2026-11-20T12:00:00.5-03:00"}`, nil},
		"every type at once": {`{"id":"1","shop_code":1,"comment":[],
			"materials":[{"material_id":1.5,"sku":{},"width":"w","quantity":true},{"width":1e400}],"tags":[1,"a",null],
			"at":"now","urgent":0,"nested":[],"small":2147483648,"counts":{"a":1,"b":"2"},"level":"low"}`,
			[]errs.Violation{at("/id", integer), at("/shop_code", text), at("/comment", text),
				at("/materials/0/material_id", integer), at("/materials/0/sku", text), at("/materials/0/width", number),
				at("/materials/0/quantity", integer), at("/materials/1/width", finite), at("/tags/0", text),
				at("/tags/2", text), at("/at", moment), at("/urgent", "must be true or false"), at("/nested", object),
				at("/small", "must be an integer from -2147483648 to 2147483647"), at("/counts/b", integer),
				at("/level", "has the wrong form")}},
		"a fraction for an integer":  {`{"id":3.5}`, []errs.Violation{at("/id", integer)}},
		"an exponent for an integer": {`{"id":35e-1}`, []errs.Violation{at("/id", integer)}},
		"a whole number, however it is written": {`{"id":3.0,"materials":[{"material_id":3e0,"quantity":0.3E+1}],
			"counts":{"a":-0.0,"b":300e-2}}`, nil},
		"a whole number over int64":  {`{"id":1e19}`, []errs.Violation{at("/id", int64s)}},
		"a whole number far over":    {`{"id":-1.5e999999999999999999}`, []errs.Violation{at("/id", int64s)}},
		"a fraction next to nothing": {`{"id":1e-999999999999999999}`, []errs.Violation{at("/id", integer)}},
		"a text of a number":         {`{"id":"3.0"}`, []errs.Violation{at("/id", integer)}},
		"an integer over int64":      {`{"id":9223372036854775808}`, []errs.Violation{at("/id", int64s)}},
		"an integer under int64":     {`{"id":-9223372036854775809}`, []errs.Violation{at("/id", int64s)}},
		"a number over double": {`{"materials":[{"width":-1e999}]}`,
			[]errs.Violation{at("/materials/0/width", finite)}},
		"an array for an object":      {`[]`, []errs.Violation{at("", object)}},
		"null for the whole body":     {` null `, []errs.Violation{at("", object)}},
		"a string for the whole body": {`"x"`, []errs.Violation{at("", object)}},
		"an object for an array":      {`{"materials":{"0":{}}}`, []errs.Violation{at("/materials", array)}},
		"null for an item": {`{"materials":[null,{"quantity":1}, null]}`,
			[]errs.Violation{at("/materials/0", object), at("/materials/2", object)}},
		"null among wrong items, in the order of the text": {`{"others":[1,null,"x",[],{"sku":null}]}`,
			[]errs.Violation{at("/others/0", object), at("/others/1", errs.Required), at("/others/2", object),
				at("/others/3", object)}},
		"a member with slash and tilde": {`{"counts":{"a/b~c":"x"}}`, []errs.Violation{at("/counts/a~1b~0c", integer)}},
		"NUL": {`{"comment":"a\u0000b","materials":[{"sku":"\u0000"}]}`,
			[]errs.Violation{at("/comment", nul), at("/materials/0/sku", nul)}},
		"NUL in an unknown member": {`{"x":["\u0000"]}`, []errs.Violation{at("/x/0", nul)}},
		"NUL in a member's name":   {`{"x\u0000":1}`, []errs.Violation{at("/x\x00", nul)}},
		"a wrong type and NUL": {`{"id":"","comment":"\u0000"}`,
			[]errs.Violation{at("/id", integer), at("/comment", nul)}},
		"a repeated member": {`{"id":1,"id":1}`, []errs.Violation{at("/id", repeated)}},
		"a repeated member of an item": {`{"materials":[{},{"sku":"a","sku":"b"}]}`,
			[]errs.Violation{at("/materials/1/sku", repeated)}},
		"a repeated unknown member":        {`{"x":{"y":1,"y":1}}`, []errs.Violation{at("/x/y", repeated)}},
		"a repeated member, spelled twice": {`{"id":1,"\u0069d":1}`, []errs.Violation{at("/id", repeated)}},
		"a wrong type and a repeated member": {`{"shop_code":1,"id":1,"id":2}`,
			[]errs.Violation{at("/shop_code", text), at("/id", repeated)}},
		"every repeated member, once, and what else is wrong": {`{"id":1,"id":2,"id":3,"shop_code":"a","shop_code":4,
			"x":{"y":{"z":1},"y":[{"z":1,"z":2}],"z":1},"materials":[],"materials":[{"sku":1}]}`,
			[]errs.Violation{at("/shop_code", text), at("/materials/0/sku", text), at("/id", repeated),
				at("/shop_code", repeated), at("/x/y", repeated), at("/x/y/0/z", repeated), at("/materials", repeated)}},
		"a repeated member before a text ends": {`{"id":1,"id":2,"shop_code":"a`,
			[]errs.Violation{at("/id", repeated), at("/shop_code", "is not valid JSON: the text ends too early, at byte 29")}},
		"as many members as no next object needs": {`{"x":[{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1},
			{"a":1,"b":1},{"a":1,"b":1,"a":1}],"y":[null]}`, []errs.Violation{at("/x/2/a", repeated)}},
		"invalid UTF-8": {"{\"comment\":\"\xff\"}",
			[]errs.Violation{at("/comment", "is not valid UTF-8 at byte 12")}},
		"invalid UTF-8, unknown member": {"{\"x\":\"\xc3\"}",
			[]errs.Violation{at("/x", "is not valid UTF-8 at byte 6")}},
		"a surrogate encoded as UTF-8": {"{\"comment\":\"\xed\xa0\x80\"}",
			[]errs.Violation{at("/comment", "is not valid UTF-8 at byte 12")}},
		"half of a surrogate pair": {`{"comment":"\ud800"}`,
			[]errs.Violation{at("/comment", "holds half of a surrogate pair at byte 12")}},
		"the other half": {`{"x":"a\uDC00b"}`,
			[]errs.Violation{at("/x", "holds half of a surrogate pair at byte 7")}},
		"two first halves": {`{"comment":"\ud800\ud800"}`,
			[]errs.Violation{at("/comment", "holds half of a surrogate pair at byte 12")}},
		"no text, and what else is wrong": {"{\"x\":\"\xff\",\"comment\":\"\\udc00\",\"at\":\"\xff\",\"id\":\"1\"," +
			"\"tags\":[\"\\u0000\xff\",7],\"\xfe\":1,\"\xfd\":2}",
			[]errs.Violation{at("/at", moment), at("/id", integer), at("/tags/1", text),
				at("/x", "is not valid UTF-8 at byte 6"), at("/comment", "holds half of a surrogate pair at byte 20"),
				at("/at", "is not valid UTF-8 at byte 34"), at("/tags/0", "is not valid UTF-8 at byte 61"),
				at("/\uFFFD", "is not valid UTF-8 at byte 68"), at("/\uFFFD", "is not valid UTF-8 at byte 74")}},
		"no text, and an end that is missing": {"{\"x\":\"\xff\",\"id\":1", []errs.Violation{
			at("/x", "is not valid UTF-8 at byte 6"), at("", "is not valid JSON: the text ends too early, at byte 15")}},
		"nothing": {``, []errs.Violation{at("", "must not be empty: a JSON value is expected")}},
		"blanks": {" \n",
			[]errs.Violation{at("", "must not be empty: a JSON value is expected")}},
		"a text that ends": {`{"materials":[{"sku":"a`,
			[]errs.Violation{at("/materials/0/sku", "is not valid JSON: the text ends too early, at byte 23")}},
		"a byte order mark": {"\xef\xbb\xbf{}",
			[]errs.Violation{at("", "must not begin with a byte order mark")}},
		"trailing text":    {`{} x`, []errs.Violation{at("", fmt.Sprintf(notJSON, 3))}},
		"a second value":   {`{}{}`, []errs.Violation{at("", fmt.Sprintf(notJSON, 2))}},
		"a trailing comma": {`{"id":1,}`, []errs.Violation{at("", fmt.Sprintf(notJSON, 7))}},
		"a leading zero":   {`{"id":01}`, []errs.Violation{at("", fmt.Sprintf(notJSON, 7))}},
		"single quotes":    {`{'id':1}`, []errs.Violation{at("", fmt.Sprintf(notJSON, 1))}},
		"NaN": {`{"materials":[{"width":NaN}]}`,
			[]errs.Violation{at("/materials/0/width", fmt.Sprintf(notJSON, 23))}},
		"a control character": {"{\"comment\":\"a\nb\"}",
			[]errs.Violation{at("/comment", fmt.Sprintf(notJSON, 13))}},
		"a comment": {`{/* */}`, []errs.Violation{at("", fmt.Sprintf(notJSON, 1))}},
		"too deep": {`{"x":` + strings.Repeat("[", 20_000),
			[]errs.Violation{at("", "is nested too deeply")}},
		"too deep, of the wrong type": {strings.Repeat("[", 20_000), []errs.Violation{at("", "is nested too deeply")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, got := httpapi.Decode[request]([]byte(test.raw))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Fatalf("violations (-want +got):\n%s", diff)
			}
			if v == nil && len(got) == 0 {
				t.Fatal("neither a value nor a violation")
			}
		})
	}
}

func TestDecodeReadsTheRest(t *testing.T) {
	t.Parallel()
	v, violations := httpapi.Decode[request]([]byte(`{"id":"x","shop_code":"a","materials":[{"sku":1,"quantity":2},7],` +
		`"urgent":true}`))
	if len(violations) != 3 || v == nil {
		t.Fatalf("violations %v", violations)
	}
	if v.ID != nil && *v.ID != 0 || *v.ShopCode != "a" || len(v.Materials) != 2 || *v.Materials[0].Quantity != 2 ||
		!*v.Urgent {
		t.Fatalf("read %+v", v)
	}
}

func TestDecodeGivesNothingForATextThatBreaksOff(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, `{"id":1`, `{"id":1} {}`} {
		if v, violations := httpapi.Decode[request]([]byte(raw)); v != nil || len(violations) != 1 {
			t.Errorf("%s: %v, %v", raw, v, violations)
		}
	}
}

func TestDecode_counts_levels_outside_of_strings_only(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		`{"x":` + strings.Repeat("[", 199) + strings.Repeat("]", 199) + `}`: true,
		`{"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`: false,
		`{"x":"\"` + strings.Repeat("[", 300) + `"}`:                        true,
		`{"x":"\\","y":` + strings.Repeat("[", 300):                         false,
		`{"x":[` + strings.Repeat(`[{}],`, 300) + `1]}`:                     true,
	} {
		if _, violations := httpapi.Decode[request]([]byte(raw)); (len(violations) == 0) != want {
			t.Errorf("%.20s: %v", raw, violations)
		}
	}
}

func TestDecode_of_long_pointers_ends_before_they_cost_more_than_the_text(t *testing.T) {
	t.Parallel()
	raw := `{"` + strings.Repeat("n", 900_000) + `":["\u0000"` + strings.Repeat(`,"\u0000"`, 1100) + `]}`
	_, violations := httpapi.Decode[request]([]byte(raw))
	if last := violations[len(violations)-1]; len(violations) > 8 || *last.Pointer != "" ||
		!strings.HasPrefix(last.Detail, "breaks more rules than are listed") {
		t.Errorf("%d violations, the last %v", len(violations), last)
	}
}

func TestDecodeEndsAfterAThousandViolations(t *testing.T) {
	t.Parallel()
	longName := strings.Repeat("n", 700)
	for _, raw := range []string{
		`{"materials":[1` + strings.Repeat(`,1`, 1000) + `]}`,
		`{"materials":[1` + strings.Repeat(`,1`, 100_000) + `]}`,
		`{"x":{"` + longName + `":["\u0000"` + strings.Repeat(`,"\u0000"`, 100_000) + `]}}`,
	} {
		_, violations := httpapi.Decode[request]([]byte(raw))
		if len(violations) != 1000 {
			t.Fatalf("%d violations", len(violations))
		}
		if pointer := *violations[999].Pointer; len(pointer) > 1024 {
			t.Fatalf("a pointer of %d bytes", len(pointer))
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		valid, `{}`, `null`, `[]`, `[null]`, `{"materials":[null]}`, `{"id":1e3}`, `{"id":-0}`,
		`{"materials":[{"width":1e400}]}`,
		`{"id":1,"id":2}`, `{"x":{"y":1,"y":2}}`, "{\"comment\":\"\xff\"}", `{"comment":"\ud800"}`, `{"comment":"\u0000"}`,
		`{"comment":"\\u0000"}`,
		`{} {}`, "\xef\xbb\xbf{}", `{"raw":null}`, `{"counts":{"a/b~c":1}}`, `{"at":"2026-11-20T12:00:00.123456789Z"}`,
		`{"level":"high"}`,
		strings.Repeat("[", 300), `{"materials":[{"width":5e-324,"height":-0.0}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, violations := httpapi.Decode[request](raw)
		for _, violation := range violations {
			if violation.Pointer == nil || violation.Detail == "" || strings.Contains(violation.Detail, "json") {
				t.Fatalf("violation %+v", violation)
			}
		}
		if len(violations) > 0 {
			return
		}
		if v == nil || !jsontext.Value(raw).IsValid() { // not UTF-8, names that repeat, half of a surrogate pair
			t.Fatalf("accepted what strict JSON refuses: %q", raw)
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("accepted %q, which cannot be encoded: %v", raw, err)
		}
		second, violations := httpapi.Decode[request](again)
		if len(violations) > 0 {
			t.Fatalf("%q is encoded as %q: %v", raw, again, violations)
		}
		third, err := json.Marshal(second)
		if err != nil || string(third) != string(again) {
			t.Fatalf("%q, then %q, then %q (%v)", raw, again, third, err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	raw := []byte(valid)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if v, violations := httpapi.Decode[request](raw); v == nil || len(violations) > 0 {
			b.Fatal(violations)
		}
	}
}

func BenchmarkDecodeWrong(b *testing.B) {
	raw := []byte(strings.Replace(valid, `"quantity":64`, `"quantity":"64"`, 1))
	b.ReportAllocs()
	for b.Loop() {
		if _, violations := httpapi.Decode[request](raw); len(violations) != 1 {
			b.Fatal(violations)
		}
	}
}

func TestDecode_takes_a_whole_number_exactly_however_it_is_written(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 5_000 {
		n := int64(random.Uint64()>>random.IntN(64)) | 1 // in which no zero begins the digits
		digits, sign := strings.TrimPrefix(strconv.FormatInt(n, 10), "-"), ""
		if n < 0 {
			sign = "-"
		}
		point := random.IntN(len(digits)) + 1 // before it and behind it
		for _, text := range []string{
			sign + digits + ".0", sign + digits + "e0", sign + digits + ".000E-0",
			fmt.Sprintf("%s%s.%s0e+%d", sign, digits[:point], digits[point:], len(digits)-point),
			fmt.Sprintf("%s%s%se-%d", sign, digits, strings.Repeat("0", point), point),
			fmt.Sprintf("%s0.%s%se%d", sign, strings.Repeat("0", point), digits, len(digits)+point),
		} {
			v, wrong := httpapi.Decode[request]([]byte(`{"id":` + text + `}`))
			if len(wrong) > 0 || *v.ID != n {
				t.Fatalf("%s: %v, want %d", text, wrong, n)
			}
		}
		text := sign + digits + ".5"
		if _, wrong := httpapi.Decode[request]([]byte(`{"id":` + text + `}`)); len(wrong) != 1 {
			t.Fatalf("%s is taken", text)
		}
	}
}

func FuzzWholeNumber(f *testing.F) {
	for _, seed := range []string{"3.0", "3e0", "-0", "1e19", "0.30e1", "9223372036854775807.0", "1e-3", "5E-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 40 || !json.Valid([]byte(text)) || strings.Trim(text, "+-.eE0123456789") != "" {
			t.Skip("no number")
		}
		exact, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Skip("an exponent that package big does not take")
		}
		v, wrong := httpapi.Decode[request]([]byte(`{"id":` + text + `}`))
		if whole := exact.IsInt() && exact.Num().IsInt64(); whole != (len(wrong) == 0) ||
			whole && *v.ID != exact.Num().Int64() {
			t.Fatalf("%s: %v", text, wrong)
		}
	})
}
