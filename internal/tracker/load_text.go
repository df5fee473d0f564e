package tracker

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	utf "golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// How the text of a file is read. Spreadsheets in Brazil separate columns by semicolons, because their numbers have a
// decimal comma. They write UTF-8 with a byte order mark, UTF-16 or Windows-1252.

// strangers are the kinds of files that are no table, each with bytes that it has at the place.
var strangers = []struct {
	place       int
	bytes, name string
}{
	{0, "PK\x03\x04", "a workbook (.xlsx, .ods) or a ZIP archive: save the sheet as CSV, or unpack it"},
	{0, "\xD0\xCF\x11\xE0", "an old workbook (.xls): save the sheet as CSV"},
	{0, "\x1F\x8B", "a gzip archive: gunzip -c FILE | api tracker load -"},
	{0, "BZh", "a bzip2 archive: bunzip2 -c FILE | api tracker load -"},
	{0, "\xFD7zXZ", "an xz archive: xz -dc FILE | api tracker load -"},
	{0, "\x28\xB5\x2F\xFD", "a Zstandard archive: zstd -dc FILE | api tracker load -"},
	{0, "7z\xBC\xAF", "a 7-Zip archive: unpack it"},
	{0, "Rar!", "a RAR archive: unpack it"},
	{0, "%PDF", "a PDF document"},
	{257, "ustar", "a tar archive: tar -xOf ARCHIVE FILE | api tracker load -"},
}

// decoded returns the file as UTF-8 without a byte order mark.
func decoded(file io.Reader) (*bufio.Reader, error) {
	r := bufio.NewReaderSize(file, readAhead)
	for _, s := range strangers {
		begin, err := r.Peek(s.place + len(s.bytes))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read file: %w", err)
		}
		if err == nil && string(begin[s.place:]) == s.bytes {
			return nil, errs.InvalidInput("The file is " + s.name + "; nothing was loaded.")
		}
	}
	begin, _ := r.Peek(2) // was read above
	var unmarked transform.Transformer = transform.Nop
	switch { // UTF-16 without a mark: the first character is ASCII
	case len(begin) > 1 && begin[0] != 0 && begin[1] == 0:
		unmarked = utf.UTF16(utf.LittleEndian, utf.IgnoreBOM).NewDecoder()
	case len(begin) > 1 && begin[0] == 0 && begin[1] != 0:
		unmarked = utf.UTF16(utf.BigEndian, utf.IgnoreBOM).NewDecoder()
	}
	return bufio.NewReaderSize(transform.NewReader(r, utf.BOMOverride(unmarked)), readAhead), nil
}

// separator returns the character that separates the columns of a CSV file, by its first line that is not empty. A line
// such as sep=; names it; such a line is skipped, and taken counts it with those before it.
func separator(r *bufio.Reader) (comma rune, taken int64) {
	ahead, _ := r.Peek(readAhead) // less at the end of the file
	empty := len(ahead) - len(bytes.TrimLeft(ahead, " \t\r\n,;\""))
	empty = bytes.LastIndexByte(ahead[:empty], '\n') + 1
	header, _, _ := bytes.Cut(ahead[empty:], []byte("\n"))
	line := strings.Trim(string(bytes.TrimRight(header, "\r")), `"`)
	if text, says := strings.CutPrefix(strings.ToLower(line), "sep="); says && len(text) == 1 {
		taken = 1 + int64(bytes.Count(ahead[:empty], []byte("\n")))
		_, _ = r.Discard(min(empty+len(header)+1, len(ahead)))
		return rune(text[0]), taken
	}
	best, most := ',', bytes.Count(header, []byte(","))
	for _, c := range []rune{';', '\t'} {
		if n := bytes.Count(header, []byte(string(c))); n > most {
			best, most = c, n
		}
	}
	return best, 0
}

// errLongRecord means that a record of a CSV file does not end.
var errLongRecord = errors.New("a record that does not end")

// recordReader passes bytes on to a reader of records, until a record is too long.
type recordReader struct {
	*bufio.Reader
	left int // bytes that may be read before the next record
}

// A field counts as the text that it is, without what a format writes around it. A record's bytes are counted as they
// are in the file, those read ahead included: it bounds the memory of a load, also where a record does not end.
const (
	longestField  = 1 << 20 // bytes
	longestRecord = 16 << 20
	tooLong       = "is a record of more than 16 MiB"
)

// Read fails once a record is too long.
func (r *recordReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errLongRecord
	}
	n, err := r.Reader.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// localized returns a spreadsheet's field in the form of the other formats. In a spreadsheet a number has a decimal
// comma; a day may be DD/MM/YYYY, and a time may follow it.
func localized(name string, k kind, text string) string {
	switch {
	case k == integerField && strings.HasSuffix(strings.TrimSpace(text), ".000"): // thousands, and no fraction of zeros
		return strings.ReplaceAll(text, ".", ",") // which no format takes
	case k == integerField || k == numberField || k == textField && isDecimalText(name):
		number := strings.Replace(text, ",", ".", 1)
		if _, err := strconv.ParseFloat(strings.TrimSpace(number), 64); err == nil {
			return number
		}
	case k == dateField:
		day, rest, _ := strings.Cut(strings.Replace(strings.TrimSpace(text), "T", " ", 1), " ")
		if rest = strings.TrimSpace(rest); rest != "" && !validTime([]byte(rest)) {
			return text
		}
		if len(day) == dateLength && day[2] == '/' && day[5] == '/' {
			day = day[6:] + "-" + day[3:5] + "-" + day[:2]
		}
		return day
	}
	return text
}

// isDecimalText reports whether the text of a field is a decimal number.
func isDecimalText(name string) bool {
	return strings.HasPrefix(name, "latitude_") || strings.HasPrefix(name, "longitude_")
}
