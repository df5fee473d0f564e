package tracker

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/encoding/charmap"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// A file is NDJSON or CSV, which its first character decides. Good lines stream into the load's transaction. The
// first bad one ends that: the rest of the file is read for more of them, up to a hundred, which are reported
// together, and nothing of the file is stored.

const (
	readAhead   = 64 << 10
	mostMembers = 1000 // of a line of NDJSON whose every fault is named
)

// lines reads a file of records into rows for the store: client, load date, then the fields.
type lines struct {
	read   func(l *lines) error // fills row; io.EOF at the end
	number int64                // of the line that was read last, from 1
	prefix []byte
	row    [][]byte
	faults []errs.Violation
	known  map[string]place
	days   map[string]bool // load dates of the rows
	ahead  int64           // rows whose ping is after their load date
	narrow int64           // the first line that was read as Windows-1252; 0: none
}

// newLines finds out the file's format by its first character.
func newLines(file io.Reader) (*lines, error) {
	buffered, err := decoded(file)
	if err != nil {
		return nil, err
	}
	l := &lines{row: make([][]byte, len(fields())+2), known: loadColumns(), days: map[string]bool{}}
	ahead, err := buffered.Peek(readAhead)
	ahead = bytes.TrimLeft(ahead, " \t\r\n")
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("read file: %w", err)
	case len(ahead) == 0 || ahead[0] == '{':
		l.read = readNDJSON(buffered)
		return l, nil
	case ahead[0] == '[':
		return nil, errs.InvalidInput("The file is a JSON array: write one object a line (jq -c '.[]' FILE); " +
			"nothing was loaded.")
	case ahead[0] == '<':
		return nil, errs.InvalidInput("The file is HTML or XML, no CSV; nothing was loaded.")
	}
	l.read, err = readCSV(l, buffered)
	return l, err
}

// next returns the next valid row. A badLine names the line and everything that is wrong with it.
func (l *lines) next() ([][]byte, error) {
	clear(l.row)
	l.faults = l.faults[:0]
	if err := l.read(l); err != nil {
		return nil, err
	}
	l.row[0] = l.prefix
	l.checkRow()
	if len(l.faults) > 0 {
		return nil, &badLine{number: l.number, detail: "is not a valid record", faults: slices.Clone(l.faults)}
	}
	loaded, ping := string(l.row[1]), l.row[l.known[columnPingDate].at]
	if ping != nil && string(ping) > loaded {
		l.ahead++
	}
	l.days[loaded] = true
	return l.row, nil
}

// fault keeps what is wrong with the line, for one of its members, whose name may be anything.
func (l *lines) fault(name, detail string) {
	shown := strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return utf8.RuneError
	}, fmt.Sprintf("%.60s", name))
	l.faults = append(l.faults, errs.At(string(jsontext.Pointer("").AppendToken(shown)), detail))
}

// set takes a field's text; nil is null.
func (l *lines) set(name string, text []byte) {
	c, known := l.known[name]
	if !known {
		l.fault(name, "is not a field of a record")
		return
	}
	if text == nil {
		return
	}
	if len(text) > longestField {
		l.fault(name, fmt.Sprintf("must have at most %d bytes", longestField))
		return
	}
	value, detail := normalize(c.kind, text)
	if detail != "" {
		l.fault(name, detail)
		return
	}
	l.row[c.at] = value
}

// checkRow holds what the listings rely on.
func (l *lines) checkRow() {
	faulty := func(name string) bool {
		return slices.ContainsFunc(l.faults, func(v errs.Violation) bool { return v.Place() == name })
	}
	switch imei := l.row[l.known[columnDevice].at]; {
	case faulty(columnDevice):
	case imei == nil:
		l.fault(columnDevice, "is required")
	case imei[0] == '-' || string(imei) == "0":
		l.fault(columnDevice, "must be positive")
	}
	if l.row[1] == nil && !faulty(columnLoadDate) {
		l.fault(columnLoadDate, "is required")
	}
}

// readNDJSON reads one object a line.
func readNDJSON(r *bufio.Reader) func(*lines) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, longestRecord)
	return func(l *lines) error {
		for scanner.Scan() {
			l.number++
			if len(bytes.TrimSpace(scanner.Bytes())) > 0 {
				return l.setObject(scanner.Bytes())
			}
		}
		switch err := scanner.Err(); {
		case err == nil:
			return io.EOF
		case errors.Is(err, bufio.ErrTooLong):
			return &badLine{number: l.number + 1, detail: tooLong, last: true}
		default:
			return fmt.Errorf("read line %d: %w", l.number+1, err)
		}
	}
}

// setObject reads a line of NDJSON: one object, of known members, none twice.
func (l *lines) setObject(text []byte) error {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return &badLine{number: l.number, detail: "is not a JSON object"}
	}
	if len(members) > mostMembers {
		return &badLine{number: l.number, detail: fmt.Sprintf("is no record: it has %d members", len(members))}
	}
	for name, value := range members {
		l.setJSON(name, value)
	}
	slices.SortFunc(l.faults, func(a, b errs.Violation) int { return strings.Compare(*a.Pointer, *b.Pointer) })
	return nil
}

// setJSON takes a member: null, or the JSON type that its kind has.
func (l *lines) setJSON(name string, value jsontext.Value) {
	c, known := l.known[name]
	switch is := value.Kind(); {
	case !known || is == 'n':
		l.set(name, nil)
	case is != kinds[c.kind].json && (is != 't' || c.kind != boolField):
		l.fault(name, "must be "+c.kind.String()+" or null")
	case c.kind == integerField && bytes.ContainsAny(value, "eE"):
		l.fault(name, "must be an integer with all its digits: write it without an exponent")
	case is == '"':
		text, _ := jsontext.AppendUnquote(nil, value) // it was decoded
		l.set(name, text)
	default:
		l.set(name, value)
	}
}

// table is a CSV file behind its header.
type table struct {
	*csv.Reader
	source *recordReader
	names  []string
	sheet  bool  // from a spreadsheet whose language has a decimal comma: semicolons or tabs
	before int64 // lines that were taken away
}

// readCSV reads the header now and one record each time; an empty field is null.
func readCSV(l *lines, r *bufio.Reader) (func(*lines) error, error) {
	comma, taken := separator(r)
	t := &table{source: &recordReader{r, longestRecord}, sheet: comma != ',', before: taken}
	t.Reader = csv.NewReader(t.source)
	t.Comma, t.ReuseRecord, t.FieldsPerRecord = comma, true, -1
	var header []string
	for len(header) == 0 {
		record, err := t.Read()
		if err != nil {
			return nil, errs.InvalidInput("Line 1 is not a CSV header; nothing was loaded.")
		}
		header = withoutEmpty(record)
	}
	line, _ := t.FieldPos(0)
	for _, name := range header {
		name = strings.TrimSpace(name)
		if _, known := l.known[name]; !known {
			l.fault(name, "is not a field of a record")
		}
		if slices.Contains(t.names, name) {
			l.fault(name, "is given twice")
		}
		t.names = append(t.names, name)
	}
	if len(l.faults) > 0 {
		return nil, errs.InvalidInput(fmt.Sprintf("Line %d, the CSV header, is not valid; nothing was loaded.",
			int64(line)+t.before), l.faults...)
	}
	return t.next, nil
}

// next reads one record that is not empty.
func (t *table) next(l *lines) error {
	for {
		t.source.left = longestRecord
		record, err := t.Read()
		if fault, ok := errors.AsType[*csv.ParseError](err); ok && !errors.Is(err, errLongRecord) {
			return &badLine{number: int64(fault.StartLine) + t.before, detail: "is not a CSV record: " + fault.Err.Error(),
				last: true}
		}
		if errors.Is(err, errLongRecord) {
			return &badLine{number: l.number + 1, detail: tooLong + ", maybe by a quote that is not closed", last: true}
		}
		if err != nil {
			return err
		}
		line, _ := t.FieldPos(0)
		l.number = int64(line) + t.before
		last := len(withoutEmpty(record))
		if last == 0 {
			continue
		}
		if last > len(t.names) || len(record) < len(t.names) && !t.sheet { // Excel leaves empty last fields out
			return &badLine{number: l.number, detail: "is not a CSV record: wrong number of fields"}
		}
		t.set(l, record[:last])
		return nil
	}
}

// withoutEmpty returns a record without its empty last columns.
func withoutEmpty(record []string) []string {
	for len(record) > 0 && strings.TrimSpace(record[len(record)-1]) == "" {
		record = record[:len(record)-1]
	}
	return record
}

// set takes the fields of a record.
func (t *table) set(l *lines, record []string) {
	narrow := slices.ContainsFunc(record, func(text string) bool { return !utf8.ValidString(text) })
	if narrow && l.narrow == 0 {
		l.narrow = l.number
	}
	for i, text := range record {
		name := t.names[i]
		if narrow {
			text, _ = charmap.Windows1252.NewDecoder().String(text) // five bytes are no characters of it
			if strings.ContainsRune(text, utf8.RuneError) {
				l.fault(name, "must be UTF-8 or Windows-1252: it has a byte that is a character of neither")
				continue
			}
		}
		switch {
		case text == "" || text == `\N` || text == "NULL":
			continue
		case t.sheet:
			text = localized(name, l.known[name].kind, text)
		}
		l.set(name, []byte(text))
	}
}

// mostBadLines is how many lines of a file are named.
const mostBadLines = 100

// badLine is a line of a file that is not a record.
type badLine struct {
	number int64
	detail string
	faults []errs.Violation // of its fields
	last   bool             // the records after it cannot be found
}

// Error returns the line for a person.
func (b *badLine) Error() string { return fmt.Sprintf("line %d %s", b.number, b.detail) }

// refuse reads on after a bad line, only to name the others. Errors: errs.Invalid with all of them.
func (l *lines) refuse(first *badLine) error {
	bad := []*badLine{first}
	for len(bad) < mostBadLines && !bad[len(bad)-1].last {
		_, err := l.next()
		next, isBad := errors.AsType[*badLine](err)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !isBad {
			return err
		}
		if isBad {
			bad = append(bad, next)
		}
	}
	if len(bad) == 1 {
		return errs.InvalidInput(fmt.Sprintf("Line %d %s; nothing was loaded.", first.number, first.detail), first.faults...)
	}
	text := fmt.Sprintf("%d lines are not valid records; nothing was loaded.", len(bad))
	if len(bad) == mostBadLines {
		text = fmt.Sprintf("At least %d lines are not valid records, the first of which follow; nothing was loaded.",
			len(bad))
	}
	return errs.InvalidInput(text, violationsOf(bad)...)
}

// violationsOf returns the bad lines as an answer has them.
func violationsOf(bad []*badLine) []errs.Violation {
	var violations []errs.Violation
	for _, line := range bad {
		at := fmt.Sprintf("/Line %d", line.number)
		if len(line.faults) == 0 {
			violations = append(violations, errs.At(at, line.detail))
		}
		for _, fault := range line.faults {
			violations = append(violations, errs.At(at+*fault.Pointer, fault.Detail))
		}
	}
	return violations
}
