package terminal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/supplyhub/supplyhub/internal/terminal"
)

func TestWriter_lets_no_character_through_that_a_terminal_obeys(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := terminal.New(&out)
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if _, err := w.Write([]byte(string(r))); err != nil {
			t.Fatal(err)
		}
	}
	for b := range 256 {
		_, _ = w.Write([]byte{byte(b), 'a'})
	}
	for _, r := range out.String() {
		switch {
		case r == '\n', r == '\t':
		case r < ' ', r >= 0x7f && r <= 0x9f, r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e,
			r >= 0x2066 && r <= 0x2069:
			t.Errorf("%U comes out", r)
		}
	}
	if !utf8.ValidString(out.String()) || !strings.Contains(out.String(), "ã") {
		t.Error("a byte that is no UTF-8 comes out, or a letter does not")
	}
}

func TestWriter_leaves_the_values_of_JSON_as_they_are(t *testing.T) {
	t.Parallel()
	text := "a\x1b[2J\u009b\u202eb\x7f\n\tç"
	var out bytes.Buffer
	if err := json.NewEncoder(terminal.New(&out)).Encode(text); err != nil {
		t.Fatal(err)
	}
	var read string
	if err := json.Unmarshal(out.Bytes(), &read); err != nil || read != text {
		t.Errorf("%q, %v", read, err)
	}
}

func TestWriter_counts_what_it_was_given_and_a_buffer_is_no_terminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := terminal.New(&out)
	if w.IsTerminal() {
		t.Error("a buffer is a terminal")
	}
	if n, err := fmt.Fprint(w, "\x1b"); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
