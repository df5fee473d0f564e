package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const (
	progressInterval = 200 * time.Millisecond
	clearLine        = "\r\x1b[K"
)

// progress is a line on standard error with how much of a long command is done; it is written to terminals alone.
type progress struct {
	out   io.Writer // nil: standard error is no terminal
	shown time.Time
}

func newProgress(cmd *cobra.Command) *progress {
	p := &progress{shown: time.Now()} // a quick command shows nothing
	if isTerminal(cmd.ErrOrStderr()) {
		p.out = cmd.ErrOrStderr()
	}
	return p
}

// show writes how many there are so far.
func (p *progress) show(what string, n int64) {
	if p.out == nil || time.Since(p.shown) < progressInterval {
		return
	}
	p.shown = time.Now()
	fmt.Fprint(p.out, clearLine, message.NewPrinter(language.English).Sprintf("%d ", n), what)
}

// end clears the line, so that something else can be printed.
func (p *progress) end() {
	if p.out != nil {
		fmt.Fprint(p.out, clearLine)
		p.shown = time.Now()
	}
}
