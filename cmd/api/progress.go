package main

import (
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/supplyhub/supplyhub/internal/terminal"
)

const (
	progressInterval = 200 * time.Millisecond
	clearLine        = "\r\x1b[K"
)

// progress is a line on standard error with how much of a long command is done; it is written to terminals alone.
type progress struct {
	out   *terminal.Writer // nil: standard error is no terminal
	shown time.Time
}

func newProgress(cmd *cobra.Command) *progress {
	p := &progress{shown: time.Now()} // a quick command shows nothing
	if out, ok := cmd.ErrOrStderr().(*terminal.Writer); ok && out.Width() > 0 {
		p.out = out
	}
	return p
}

// show writes how many there are so far, of something that the program has a word for.
func (p *progress) show(what string, n int64) {
	if p.out == nil || time.Since(p.shown) < progressInterval {
		return
	}
	p.shown = time.Now()
	_ = p.out.Control(clearLine + message.NewPrinter(language.English).Sprintf("%d ", n) + what) // only shows
}

// end clears the line, so that something else can be printed.
func (p *progress) end() {
	if p.out != nil {
		_ = p.out.Control(clearLine) // only shows
		p.shown = time.Now()
	}
}
