// Package doctor makes the report of `doctor`: a line for each part that was looked at, with what to do. It looks at
// the database and the queue itself. Package app looks at addresses and at what the features keep, and adds its lines.
package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// How a check ended.
const (
	Well    = "ok"
	Warning = "warning" // the service works; an operator should know
	Broken  = "broken"
)

// Timeout is for what is asked of one dependency.
const Timeout = 15 * time.Second

// Check is one line of the doctor.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warning or broken
	Detail string `json:"detail"`
	Todo   string `json:"todo"` // what to do about it; empty when there is nothing
}

// Checkup is what the doctor found. OK is false when something is broken.
type Checkup struct {
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

// New returns a checkup of nothing.
func New() *Checkup { return &Checkup{OK: true, Checks: []Check{}} }

// Say adds a line. Errors in it are in words, and no credential is shown.
func (c *Checkup) Say(status, name, todo, detail string, args ...any) {
	for i, arg := range args {
		if err, is := arg.(error); is {
			args[i] = errs.Text(err)
		}
	}
	c.OK = c.OK && status != Broken
	c.Checks = append(c.Checks, Check{Name: name, Status: status,
		Detail: telemetry.WithoutCredentials(fmt.Sprintf(detail, args...)), Todo: todo})
}

// Well adds a line about what works.
func (c *Checkup) Well(name, detail string, args ...any) { c.Say(Well, name, "", detail, args...) }

// Unless adds a line about what works unless it is bad, which has the status and what to do.
func (c *Checkup) Unless(bad bool, status, name, todo, detail string, args ...any) {
	if !bad {
		status, todo = Well, ""
	}
	c.Say(status, name, todo, detail, args...)
}

// Tried adds a line about a part that was tried: broken by the error, which follows the text, or well.
func (c *Checkup) Tried(err error, name, todo, text, well string, args ...any) {
	if err != nil {
		c.Say(Broken, name, todo, text+"%v", err)
		return
	}
	c.Well(name, well, args...)
}

// Encrypted warns of a connection to another host that who is between can read.
func (c *Checkup) Encrypted(name string, plain bool, todo string) {
	if plain {
		c.Say(Warning, name, todo, "the connection to another host is not encrypted")
		return
	}
	c.Well(name, "by TLS, or on this machine")
}

// answers adds a server that works, with a warning where it is older than the service is tested with.
func (c *Checkup) answers(name string, old bool, oldest, detail string, args ...any) {
	c.Unless(old, Warning, name, "use version "+oldest+" or newer: the service is not tested with this one", detail,
		args...)
}

// WriteText writes one line for each check.
func (c *Checkup) WriteText(w io.Writer) error {
	const gap = 2
	lines := tabwriter.NewWriter(w, 0, 0, gap, ' ', 0)
	for _, check := range c.Checks {
		text := check.Detail
		if check.Todo != "" {
			text += " -> " + check.Todo
		}
		fmt.Fprintf(lines, "%s\t%s\t%s\n", check.Status, check.Name, strings.ReplaceAll(text, "\n", " "))
	}
	return lines.Flush()
}

// WriteJSON writes the whole as one object.
func (c *Checkup) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(c)
}
