// Package terminal has the writers of commands. Their output holds texts that strangers wrote: in a certificate, in a
// file, in a database's error. A terminal obeys nothing in them, because control characters come out as numbers.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Writer writes to one of a command's streams. A control character comes out as its number, \u001b for instance, which
// means the same in JSON.
type Writer struct {
	out io.Writer

	mu     sync.Mutex
	failed error // the last write that failed
}

// New returns a Writer to out.
func New(out io.Writer) *Writer { return &Writer{out: out} }

// Write implements io.Writer; a character is written by one call.
func (w *Writer) Write(text []byte) (int, error) {
	if _, err := io.WriteString(w.out, Clean(string(text))); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failed = err
		return 0, err
	}
	return len(text), nil
}

// Input returns what open opens. Its reads end with ctx: a person, a pipe or the other end of a FIFO may never come.
func Input(ctx context.Context, open func() (io.ReadCloser, error)) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		in, err := open()
		if err == nil {
			_, err = io.Copy(writer, in)
			err = errors.Join(err, in.Close())
		}
		_ = writer.CloseWithError(err) // never fails
	}()
	context.AfterFunc(ctx, func() { _ = writer.CloseWithError(ctx.Err()) })
	return reader
}

// Lost returns why what was written to a Writer did not come out; nil: all of it did.
func Lost(stream io.Writer) error {
	w, ok := stream.(*Writer)
	if !ok {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// IsTerminal reports whether the stream is a terminal.
func (w *Writer) IsTerminal() bool {
	file, ok := w.out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Clean returns text as a Writer writes it.
func Clean(text string) string {
	if strings.IndexFunc(text, obeyed) < 0 && utf8.ValidString(text) {
		return text
	}
	var clean strings.Builder
	for _, r := range text { // a byte that is no UTF-8 becomes U+FFFD: alone it may be a control character too
		if obeyed(r) {
			fmt.Fprintf(&clean, `\u%04x`, r)
		} else {
			clean.WriteRune(r)
		}
	}
	return clean.String()
}

// obeyed reports whether a terminal acts on r instead of showing it. Lines and tabs are no harm.
func obeyed(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}
