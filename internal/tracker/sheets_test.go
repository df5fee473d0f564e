package tracker_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// The first record of testdata/sheets, as a client gets it.
var ofSheet = map[string]any{
	"imei": 356938035643809.0, "dispositivo": "Rastreador 1", "latitude": -23.5505, "longitude": -46.6333, "ligado": true,
	"data_de_ping": "2026-11-19", "hora_de_ping": "08:09:10", "perc_bateria": 81.0,
	"endereco": "Rua das Flores, 7; sala 2", "cidade_positivacao": "São Paulo", "latitude_rastreada": "-23.55052",
}

// excel are the other formats of Excel with Brazil's settings, as Microsoft documents them: CSV is Windows-1252, CSV
// UTF-8 has a byte order mark, Unicode text is UTF-16 with tabs. Lines end with CRLF.
func excel(t *testing.T, text string) map[string]string {
	t.Helper()
	text = strings.ReplaceAll(text, "\n", "\r\n")
	encoded := func(e encoding.Encoding, text string) string {
		out, err := e.NewEncoder().String(text)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	tabs := strings.ReplaceAll(strings.ReplaceAll(text, "Flores, 7; sala", "Flores, 7\x00 sala"), ";", "\t")
	tabs = strings.ReplaceAll(tabs, "\x00", ";")
	return map[string]string{
		"CSV": encoded(charmap.Windows1252, text), "CSV UTF-8": "\uFEFF" + text, "with sep=": "sep=;\r\n" + text,
		"Unicode text":      encoded(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), tabs),
		"UTF-16 BE":         encoded(unicode.UTF16(unicode.BigEndian, unicode.UseBOM), tabs),
		"UTF-16, unmarked":  encoded(unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), tabs),
		"empty first lines": "\r\n;;\r\n" + text, "empty line, then sep=": "\r\nsep=;\r\n" + text,
		"empty columns": strings.ReplaceAll(text, "\r\n", ";;\r\n") + ";;;\r\n\r\n",
	}
}

func TestLoad_takes_the_files_of_spreadsheets_in_Brazil_as_they_are(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	names, err := filepath.Glob("testdata/sheets/*.csv")
	if err != nil || len(names) == 0 {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = string(text)
	}
	for name, text := range excel(t, files["libreoffice-utf8.csv"]) {
		files["Excel: "+name] = text
	}
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for name, text := range files {
			f := newFleet(t, db)
			loaded, err := f.service.Load(t.Context(), f.client.ID, strings.NewReader(text), false)
			if err != nil || loaded.Records != 2 {
				t.Errorf("%s: %+v, %v", name, loaded, err)
				continue
			}
			narrow := strings.Contains(name, "1252") || name == "Excel: CSV"
			if warned := strings.Contains(strings.Join(loaded.Warnings, ""), "Windows-1252; line 2 "); warned != narrow {
				t.Errorf("%s: warnings %q", name, loaded.Warnings)
			}
			record := f.records("/snapshot")[0]
			for field, want := range ofSheet {
				if !gocmp.Equal(record[field], want) {
					t.Errorf("%s: %s is %v, want %v", name, field, record[field], want)
				}
			}
		}
	})
}

func TestLoad_says_what_a_file_is_that_it_cannot_read(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	for name, test := range map[string]struct{ text, says string }{
		"workbook":         {"PK\x03\x04\x14\x00", "workbook"},
		"old workbook":     {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "workbook"},
		"gzip":             {"\x1F\x8B\x08\x00", "gzip"},
		"bzip2":            {"BZh91AY&SY", "bzip2"},
		"xz":               {"\xFD7zXZ\x00\x00\x04", "an xz archive"},
		"Zstandard":        {"\x28\xB5\x2F\xFD\x24\x00", "Zstandard"},
		"7-Zip":            {"7z\xBC\xAF\x27\x1C", "7-Zip"},
		"RAR":              {"Rar!\x1A\x07\x01\x00", "RAR"},
		"tar":              {"records.csv" + strings.Repeat("\x00", 246) + "ustar\x0000", "a tar archive"},
		"PDF":              {"%PDF-1.7\n", "PDF"},
		"array":            {`[{"imei":1,"dt_carga":"2026-11-20"}]`, "JSON array"},
		"page":             {"<!DOCTYPE html><p>", "HTML"},
		"Go's thousands":   {"imei,dt_carga,latitude\n1,2026-11-20,1_000\n", "must be a number"},
		"Go's hexadecimal": {"imei,dt_carga,latitude\n1,2026-11-20,0x1p4\n", "must be a number"},
		"exponent":         {`{"imei":1e0,"dt_carga":"2026-11-20"}`, "/imei must be an integer with all its digits: write"},
		"header, later":    {"\n,,\nimei,dt_carga,ip\n", "Line 3, the CSV header"},
		"fault, later":     {"\nsep=;\n\nimei;dt_carga\n0;2026-11-20\n", "Line 5 "},
		"short IMEI":       {"imei;dt_carga\n3,56938E+14;20/11/2026\n", "number format 0"},
		"control codes":    {"imei,dt_carga,\x1b]0;owned\x07\n1,2026-11-20,x\n", "is not a field"},
		"open quote": {"imei,dt_carga,dispositivo\n1,2026-11-20,x\n1,2026-11-20,\"" + strings.Repeat("x", 17<<20),
			"more than 16 MiB, maybe by a quote"},
		"one line": {`{"imei":1,"dt_carga":"2026-11-20","dispositivo":"` + strings.Repeat("x", 17<<20),
			"more than 16 MiB"},
		"devices":      {"{" + members(2000) + "}", "it has 2000 members"},
		"moved commas": {"imei,dt_carga,latitude\n1,2026-11-20,-23,5\n", "wrong number of fields"},
		"comma in CSV": {"imei,dt_carga,latitude\n1,2026-11-20,\"-23,5\"\n", "must be a number"},
		"DOS's Müller": {"imei,dt_carga,dispositivo\n1,2026-11-20,M\x81ller\n", "a character of neither"},
		"day in CSV":   {"imei,dt_carga\n1,20/11/2026\n", "YYYY-MM-DD"},
	} {
		f := newFleet(t, db)
		_, err := f.service.Load(t.Context(), f.client.ID, strings.NewReader(test.text), false)
		if errs.KindOf(err) != errs.Invalid {
			t.Errorf("%s: %v", name, err)
			continue
		}
		said := errorText(err)
		if !strings.Contains(said, test.says) || strings.ContainsAny(said, "\x1b\x07\x00") {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// Where a comma is the decimal point, a dot is before thousands. Programs write a dot and a zero as well.
func TestLoad_takes_no_thousands_of_a_spreadsheet_for_a_fraction(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	for _, test := range []struct {
		text, cell string
		want       any // nil: the file is refused
	}{
		{"imei;dt_carga;identificador\n1;20/11/2026;", "1.000", nil},
		{"imei;dt_carga;identificador\n1;20/11/2026;", " -12.000 ", nil},
		{"imei\tdt_carga\tidentificador\n1\t20/11/2026\t", "1.000", nil},
		{"imei;dt_carga;identificador\n1;20/11/2026;", "1.234", nil},
		{"imei;dt_carga;identificador\n1;20/11/2026;", "1.000.000", nil},
		{"imei;dt_carga;identificador\n1;20/11/2026;", "1.000,00", nil},
		{"imei;dt_carga;identificador\n1;20/11/2026;", "1000", 1000.0},
		{"imei;dt_carga;identificador\n1;20/11/2026;", "1000,000", 1000.0},
		{"imei;dt_carga;identificador\n1;20/11/2026;", "12.0", 12.0},
		{"imei,dt_carga,identificador\n1,2026-11-20,", "1.000", 1.0}, // the comma separates: the dot is the point
		{"imei;dt_carga;latitude\n1;20/11/2026;", "-23.000", -23.0},  // no field of numbers has thousands
	} {
		f := newFleet(t, db)
		_, err := f.service.Load(t.Context(), f.client.ID, strings.NewReader(test.text+test.cell+"\n"), false)
		if refused := errs.KindOf(err) == errs.Invalid; refused != (test.want == nil) || !refused && err != nil {
			t.Errorf("%q: %v", test.text+test.cell, err)
		}
		if test.want != nil {
			record := f.records("/list")[0]
			if record["identificador"] != test.want && record["latitude"] != test.want {
				t.Errorf("%q: %v and %v, want %v", test.cell, record["identificador"], record["latitude"], test.want)
			}
		}
	}
}

func TestLoad_counts_the_bytes_of_a_field_alike_in_both_formats(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		const mebibyte = 1 << 20
		for name, format := range map[string]string{
			"NDJSON":         `{"imei":1,"dt_carga":"2026-11-20","dispositivo":"A","endereco":"%s","rede":"%s"}` + "\n",
			"escaped NDJSON": `{"imei":1,"dt_carga":"2026-11-20","dispositivo":"A","endereco":"\u0061%.1048575s","rede":"%s"}`,
			"CSV":            "imei,dt_carga,dispositivo,endereco,rede\n1,2026-11-20,A,%s,\"%s\"\n",
		} {
			f := newFleet(t, db)
			load := func(rede int) error {
				text := fmt.Sprintf(format, strings.Repeat("x", mebibyte), strings.Repeat("y", rede))
				_, err := f.service.Load(t.Context(), f.client.ID, strings.NewReader(text), false)
				return err
			}
			if err := load(mebibyte + 1); errs.KindOf(err) != errs.Invalid ||
				!strings.Contains(errorText(err), "rede") || !strings.Contains(errorText(err), "at most 1048576") {
				t.Errorf("%s: a field of a byte more than 1 MiB: %.500v", name, err)
			}
			if err := load(mebibyte); err != nil {
				t.Errorf("%s: two fields of 1 MiB: %.500v", name, err)
				continue
			}
			if r := f.records("/list")[0]; len(r["endereco"].(string)) != mebibyte || len(r["rede"].(string)) != mebibyte {
				t.Errorf("%s: a field is not as long as it was", name)
			}
		}
	})
}

func TestLoad_takes_the_place_of_a_days_records_only_with_replace(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := newFleet(t, db)
		load := func(replace bool, text string) did {
			t.Helper()
			loaded, err := f.service.Load(t.Context(), f.client.ID, strings.NewReader("imei,dt_carga,dispositivo\n"+text),
				replace)
			if err != nil {
				t.Fatal(err)
			}
			return did{loaded.Records, strings.Join(loaded.Warnings, "\n")}
		}
		if got := load(false, "1,2026-11-19,a\n2,2026-11-20,b\n"); got.warnings != "" {
			t.Errorf("a first load warns %q", got.warnings)
		}
		if got := load(false, "3,2026-11-20,c\n"); !strings.Contains(got.warnings, "2026-11-20") ||
			strings.Contains(got.warnings, "2026-11-19") || !strings.Contains(got.warnings, "--replace") {
			t.Errorf("a second load of a day warns %q", got.warnings)
		}
		if got := load(true, "4,2026-11-20,d\n4,2026-11-20,e\n5,2026-11-21,f\n"); got.warnings != "" || got.records != 3 {
			t.Errorf("a replacement gives %+v", got)
		}
		if got := f.get("/list"); !gocmp.Equal(got, page{4, []string{"f", "e", "d", "a"}}) {
			t.Errorf("the list is %v", got)
		}
		ahead := "imei,dt_carga,data_de_ping\n1,2026-11-22,2026-11-23\n2,2026-11-22,2026-11-22\n3,2026-11-22,2036-01-01\n"
		loaded, err := f.service.Load(t.Context(), f.client.ID, strings.NewReader(ahead), false)
		if err != nil || loaded.Records != 3 || !strings.Contains(strings.Join(loaded.Warnings, ""), "of 2 records") {
			t.Errorf("clocks that are ahead: %+v, %v", loaded, err)
		}
	})
}

// did is what a load did.
type did struct {
	records  int64
	warnings string
}

// errorText is an error with its violations.
func errorText(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*errs.Error](err); ok {
		for _, v := range e.Violations {
			text += " " + *v.Pointer + " " + v.Detail
		}
	}
	return text
}

// members is so many members of an object.
func members(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"%d":{}`, i)
	}
	return strings.Join(list, ",")
}
