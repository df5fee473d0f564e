package tracker

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Fields come as the engine's text and go out as JSON without becoming Go values: a page has 25,000 of them. Text
// that is not in its kind's plain form, as views of others may have it, is converted, or null where it cannot be.

const (
	dateLength = len(time.DateOnly)
	timeLength = len(time.TimeOnly)
	mostDigits = 300 // that a double holds in any case
)

// encoder turns rows of the database's own text into JSON objects, without a detour through Go values.
type encoder struct {
	keys  [][]byte // what comes before each value: {"first": or ,"next":
	kinds []kind
}

// newEncoder prepares what is between two values: the members' names with their punctuation.
func newEncoder() encoder {
	var e encoder
	for i, f := range fields() {
		before := ","
		if i == 0 {
			before = "{"
		}
		e.keys = append(e.keys, []byte(before+`"`+f.name+`":`))
		e.kinds = append(e.kinds, f.kind)
	}
	return e
}

// appendRecord appends the record of one row, whose fields are in the order of fields().
func (e encoder) appendRecord(b []byte, row [][]byte) []byte {
	for i, key := range e.keys {
		b = append(b, key...)
		b = appendValue(b, e.kinds[i], row[i])
	}
	return append(b, '}')
}

// appendValue appends a column's text as the kind of JSON that the field has. Text that cannot be one is null.
func appendValue(b []byte, k kind, text []byte) []byte {
	if text == nil {
		return append(b, "null"...)
	}
	switch k {
	case integerField:
		return appendInteger(b, text)
	case numberField:
		return appendNumber(b, text)
	case boolField:
		return appendBool(b, text)
	case dateField:
		return appendDate(b, text)
	case timeField:
		return appendTime(b, text)
	default:
		return appendText(b, text)
	}
}

// appendInteger appends an integer, or null.
func appendInteger(b, text []byte) []byte {
	if plainInteger(text) {
		return append(b, text...)
	}
	n, ok := parseInteger(string(bytes.TrimSpace(text)))
	if !ok {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, n, 10)
}

// plainInteger reports whether text is an int64 as JSON spells it; most are.
func plainInteger(text []byte) bool {
	digits := bytes.TrimPrefix(text, []byte("-"))
	if len(digits) == 0 || len(digits) > 18 || (digits[0] == '0' && len(text) > 1) {
		return false
	}
	return allDigits(digits)
}

// allDigits reports whether a text is one or more digits.
func allDigits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// parseInteger reads what a database may write for an integer: 007, 12.000, 1e+15.
func parseInteger(text string) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	if whole, ok := cutZeroFraction(text); ok {
		n, err := strconv.ParseInt(whole, 10, 64)
		return n, err == nil
	}
	f, ok := parseNumber([]byte(text))
	const exact = 1 << 53
	if !ok || f != math.Trunc(f) || math.Abs(f) > exact {
		return 0, false
	}
	return int64(f), true
}

// cutZeroFraction returns the text without a fraction of zeros, as numeric columns have it; ok is false for another
// fraction.
func cutZeroFraction(text string) (string, bool) {
	whole, ok := strings.CutSuffix(strings.TrimRight(text, "0"), ".")
	return whole, ok && whole != ""
}

// appendNumber appends a number, or null: JSON has no NaN and no infinity.
func appendNumber(b, text []byte) []byte {
	if plainNumber(text) {
		return append(b, text...)
	}
	f, ok := parseNumber(text)
	if !ok {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}

// parseNumber reads a number that JSON can have. Go's own spellings, 1_000 and 0x1p4, are none.
func parseNumber(text []byte) (f float64, ok bool) {
	if bytes.ContainsAny(text, "_xX") {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// plainNumber reports whether text is a JSON number without an exponent, which a double holds; most are.
func plainNumber(text []byte) bool {
	if len(text) > mostDigits {
		return false
	}
	whole, fraction, dotted := bytes.Cut(bytes.TrimPrefix(text, []byte("-")), []byte("."))
	if len(whole) == 0 || !allDigits(whole) || (whole[0] == '0' && len(whole) > 1) {
		return false
	}
	return !dotted || (len(fraction) > 0 && allDigits(fraction))
}

// appendBool appends a truth value, or null. SQLite and views of others have their own words for it.
func appendBool(b, text []byte) []byte {
	if len(text) == 1 { // as PostgreSQL writes it
		switch text[0] {
		case 't', '1':
			return append(b, "true"...)
		case 'f', '0':
			return append(b, "false"...)
		}
	}
	truth, ok := parseBool(text)
	if !ok {
		return append(b, "null"...)
	}
	return strconv.AppendBool(b, truth)
}

// parseBool reads booleans, numbers (0 is false) and the usual words, the Portuguese ones included.
func parseBool(text []byte) (truth, ok bool) {
	switch string(bytes.ToLower(bytes.TrimSpace(text))) {
	case "t", "true", "1", "y", "yes", "on", "s", "sim":
		return true, true
	case "f", "false", "0", "n", "no", "off", "nao", "não":
		return false, true
	}
	f, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
	return f != 0, err == nil && !math.IsNaN(f)
}

// appendDate takes the date in front of dates, timestamps and texts. Infinity, BC and what is no day of the calendar
// are null.
func appendDate(b, text []byte) []byte {
	if len(text) < dateLength || !validDate(text[:dateLength]) ||
		(len(text) > dateLength && !endsDate(text[dateLength:])) {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = append(b, text[:dateLength]...)
	return append(b, '"')
}

// endsDate reports whether a time may begin here, and no year before Christ ends the text.
func endsDate(rest []byte) bool {
	return (rest[0] == ' ' || rest[0] == 'T') && !bytes.HasSuffix(rest, []byte("BC"))
}

// validDate reports whether text is YYYY-MM-DD, a real day of the years 1 to 9999.
func validDate(text []byte) bool {
	if len(text) != dateLength || text[4] != '-' || text[7] != '-' ||
		!allDigits(text[:4]) || !allDigits(text[5:7]) || !allDigits(text[8:]) {
		return false
	}
	year := number(text[:4])
	month, day := number(text[5:7]), number(text[8:])
	return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month)
}

// A text in JSON has quotes, and mostQuoted bytes for each of its own at most: \u0001.
const (
	mostQuoted = 6
	quotes     = 2
)

// quotedBytes returns about how many bytes a value has as JSON, never too few.
func quotedBytes(text []byte) int {
	n := quotes + len(text)
	for _, c := range text {
		switch {
		case c < ' ':
			n += mostQuoted - 1
		case c == '"' || c == '\\':
			n++
		}
	}
	if !utf8.Valid(text) {
		n += quotes * len(text) // U+FFFD has three bytes
	}
	return n
}

// appendText appends a text. Bytes that are no UTF-8, which SQLite keeps as it is given them, become U+FFFD.
func appendText(b, text []byte) []byte {
	b, _ = jsontext.AppendQuote(b, text)
	return b
}

// number returns the number of some digits.
func number(digits []byte) int {
	n := 0
	for _, c := range digits {
		n = n*10 + int(c-'0')
	}
	return n
}

// daysIn returns how many days the month has.
func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// appendTime takes the time of day of times, timestamps and texts, cut to whole seconds.
func appendTime(b, text []byte) []byte {
	if len(text) > dateLength && text[4] == '-' && (text[dateLength] == ' ' || text[dateLength] == 'T') {
		text = text[dateLength+1:]
	}
	if !validTime(text) {
		return append(b, "null"...)
	}
	b = append(b, '"')
	if len(text) < timeLength || text[5] != ':' { // HH:mm
		b = append(b, text[:5]...)
		return append(b, `:00"`...)
	}
	b = append(b, text[:timeLength]...)
	return append(b, '"')
}

// validTime reports whether text begins with HH:mm:ss or is HH:mm; a fraction or a zone may follow the seconds.
func validTime(text []byte) bool {
	if len(text) < 5 || text[2] != ':' || !below(text[:2], 24) || !below(text[3:5], 60) {
		return false
	}
	if len(text) == 5 {
		return true
	}
	if len(text) < timeLength || text[5] != ':' || !below(text[6:8], 60) {
		return false
	}
	return len(text) == timeLength || bytes.IndexByte([]byte(".+-Z "), text[8]) >= 0
}

// below reports whether text is a number under the limit.
func below(text []byte, limit int) bool { return allDigits(text) && number(text) < limit }
