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

	"github.com/go-json-experiment/json/jsontext"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// A file is NDJSON or CSV, which its first character decides. Good lines stream into the load's transaction. The
// first bad one ends that: the rest of the file is read for more of them, up to a hundred, which are reported
// together, and nothing of the file is stored.

const (
	longestLine = 1 << 20 // bytes
	readAhead   = 64 << 10
)

// lines reads a file of records into rows for the store: client, load date, then the fields.
type lines struct {
	read   func(l *lines) error // fills row; io.EOF at the end
	number int64                // of the line that was read last, from 1
	prefix []byte
	row    [][]byte
	faults []errs.Violation
	known  map[string]place
}

// newLines finds out the file's format by its first character.
func newLines(file io.Reader) (*lines, error) {
	buffered := bufio.NewReaderSize(file, readAhead)
	skipMark(buffered)
	l := &lines{row: make([][]byte, len(fields())+2), known: loadColumns()}
	first, err := firstCharacter(buffered)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read file: %w", err)
	}
	if first == '{' || errors.Is(err, io.EOF) {
		l.read = readNDJSON(buffered)
		return l, nil
	}
	l.read, err = readCSV(l, buffered)
	return l, err
}

// skipMark skips the byte order mark that some spreadsheets write.
func skipMark(r *bufio.Reader) {
	if mark, err := r.Peek(3); err == nil && bytes.Equal(mark, []byte("\xEF\xBB\xBF")) {
		_, _ = r.Discard(3)
	}
}

// firstCharacter looks ahead over blank space, as far as one buffer reaches.
func firstCharacter(r *bufio.Reader) (byte, error) {
	for n := 1; n < readAhead; n++ {
		ahead, err := r.Peek(n)
		if err != nil {
			return 0, err
		}
		if c := ahead[n-1]; c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, nil
		}
	}
	return 0, nil
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
	return l.row, nil
}

// fault keeps what is wrong with the line, for one of its members.
func (l *lines) fault(name, detail string) {
	l.faults = append(l.faults, errs.At("/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), detail))
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
		for _, v := range l.faults {
			if v.Pointer != nil && *v.Pointer == "/"+name {
				return true
			}
		}
		return false
	}
	loaded, ping := l.row[1], l.row[l.known[columnPingDate].at]
	switch imei := l.row[l.known[columnDevice].at]; {
	case faulty(columnDevice):
	case imei == nil:
		l.fault(columnDevice, "is required")
	case imei[0] == '-' || string(imei) == "0":
		l.fault(columnDevice, "must be positive")
	}
	if loaded == nil && !faulty(columnLoadDate) {
		l.fault(columnLoadDate, "is required")
	}
	if loaded != nil && ping != nil && string(ping) > string(loaded) {
		l.fault(columnPingDate, "must not be after "+columnLoadDate+", "+string(loaded))
	}
}

// readNDJSON reads one object a line.
func readNDJSON(r *bufio.Reader) func(*lines) error {
	var text []byte
	return func(l *lines) error {
		for {
			var err error
			if text, err = readLine(r, text[:0]); err != nil && (!errors.Is(err, io.EOF) || len(text) == 0) {
				return lineError(l, err)
			}
			l.number++
			if len(bytes.TrimSpace(text)) > 0 {
				break
			}
		}
		return l.setObject(text)
	}
}

// lineError turns an error of a decoder into a bad line; one of reading stays what it is.
func lineError(l *lines, err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if errors.Is(err, bufio.ErrTooLong) {
		return &badLine{number: l.number + 1, detail: fmt.Sprintf("is longer than %d bytes", longestLine), last: true}
	}
	return fmt.Errorf("read line %d: %w", l.number+1, err)
}

// readLine reads a line of any length into the given buffer, without its end.
func readLine(r *bufio.Reader, line []byte) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > longestLine:
			return nil, bufio.ErrTooLong
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		default:
			return line, err
		}
	}
}

// setObject reads a line of NDJSON: one object, of known members, none twice.
func (l *lines) setObject(text []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(text))
	notJSON := func() error {
		return &badLine{number: l.number, detail: "is not a JSON object"}
	}
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '{' {
		return notJSON()
	}
	for decoder.PeekKind() != '}' {
		name, err := decoder.ReadToken()
		if err != nil {
			return notJSON()
		}
		field := name.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return notJSON()
		}
		if err := l.setJSON(field, value); err != nil {
			return notJSON()
		}
	}
	if _, err := decoder.ReadToken(); err != nil {
		return notJSON()
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return notJSON()
	}
	return nil
}

// setJSON takes a member: null, or the JSON type that its kind has.
func (l *lines) setJSON(name string, value jsontext.Value) error {
	c, known := l.known[name]
	switch is := value.Kind(); {
	case !known || is == 'n':
		l.set(name, nil)
	case is != c.kind.json() && (is != 't' || c.kind != boolField):
		l.fault(name, "must be "+c.kind.String()+" or null")
	case is == '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return err
		}
		l.set(name, text)
	default:
		l.set(name, append([]byte{}, value...)) // the decoder's buffer is used again
	}
	return nil
}

// json returns the JSON type of a kind; false is of both booleans.
func (k kind) json() jsontext.Kind {
	switch k {
	case integerField, numberField:
		return '0'
	case boolField:
		return 'f'
	default:
		return '"'
	}
}

// String returns the kind as messages about a file name it.
func (k kind) String() string {
	return [...]string{
		textField: "a string", integerField: "an integer", numberField: "a number", boolField: "true, false",
		dateField: "a day of the calendar, written YYYY-MM-DD,", timeField: "a time of day, written HH:mm:ss,",
	}[k]
}

// readCSV reads the header now and one record each time; an empty field is null.
func readCSV(l *lines, r io.Reader) (func(*lines) error, error) {
	reader := csv.NewReader(r)
	reader.ReuseRecord = true
	header, err := reader.Read()
	if err != nil {
		return nil, errs.InvalidInput("Line 1 is not a CSV header; nothing was loaded.")
	}
	names := make([]string, len(header))
	for i, name := range header {
		names[i] = strings.TrimSpace(name)
		if _, known := l.known[names[i]]; !known {
			l.fault(names[i], "is not a field of a record")
		}
	}
	for i, name := range names {
		for _, before := range names[:i] {
			if before == name {
				l.fault(name, "is given twice")
			}
		}
	}
	if len(l.faults) > 0 {
		return nil, errs.InvalidInput("Line 1, the CSV header, is not valid; nothing was loaded.", l.faults...)
	}
	reader.FieldsPerRecord = len(names)
	return func(l *lines) error {
		record, err := reader.Read()
		if fault, ok := errors.AsType[*csv.ParseError](err); ok {
			return &badLine{number: int64(fault.StartLine), detail: "is not a CSV record: " + fault.Err.Error(),
				last: !errors.Is(fault, csv.ErrFieldCount)}
		}
		if err != nil {
			return err
		}
		line, _ := reader.FieldPos(0)
		l.number = int64(line)
		for i, text := range record {
			if text != "" {
				l.set(names[i], []byte(text))
			}
		}
		return nil
	}, nil
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
