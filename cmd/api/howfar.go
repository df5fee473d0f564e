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
	progressEach = 200 * time.Millisecond
	clearLine    = "\r\x1b[K"
)

// howFar is a line on standard error that says how far a long command is; without a terminal it says nothing.
type howFar struct {
	out   io.Writer // nil: nobody sees it
	shown time.Time
}

func newHowFar(cmd *cobra.Command) *howFar {
	p := &howFar{shown: time.Now()} // what is quick says nothing
	if isTerminal(cmd.ErrOrStderr()) {
		p.out = cmd.ErrOrStderr()
	}
	return p
}

// show writes how many there are so far.
func (p *howFar) show(what string, n int64) {
	if p.out == nil || time.Since(p.shown) < progressEach {
		return
	}
	p.shown = time.Now()
	fmt.Fprint(p.out, clearLine, message.NewPrinter(language.English).Sprintf("%d ", n), what)
}

// end takes the line away.
func (p *howFar) end() {
	if p.out != nil {
		fmt.Fprint(p.out, clearLine)
	}
}
