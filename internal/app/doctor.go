package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// How a check of the doctor ended.
const (
	well    = "ok"
	warning = "warning" // the service works; an operator should know
	broken  = "broken"
)

const checkTimeout = 15 * time.Second // of what the doctor asks one dependency

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

// WriteText writes one line for each check.
func (c Checkup) WriteText(w io.Writer) error {
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
func (c Checkup) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(c)
}

// doctor looks at everything that a process of the role needs, and leaves all as it was.
type doctor struct {
	pipeline
	role         config.Role
	installation string // empty: the database does not say
	checks       []Check
}

// DoctorAPI looks at everything that the api of this environment needs.
func DoctorAPI(ctx context.Context, environ map[string]string) Checkup {
	d := &doctor{role: config.ForAPI}
	if d.configured(environ) {
		d.examine(ctx, d.examineTrackers)
		d.sayPublic()
		d.examineEvents(ctx)
		d.sayProxy(environ)
		d.providers(ctx)
	}
	return d.checkup()
}

// DoctorWorker looks at everything that the worker of this environment needs.
func DoctorWorker(ctx context.Context, environ map[string]string) Checkup {
	d := &doctor{role: config.ForWorker}
	if d.configured(environ) {
		d.examine(ctx, func(context.Context) {}) // a worker has no tracker listings, and links none
		d.examineEvents(ctx)
		d.sayProxy(environ)
		d.providers(ctx)
	}
	return d.checkup()
}

func (d *doctor) checkup() Checkup {
	c := Checkup{OK: true, Checks: d.checks}
	for _, check := range d.checks {
		c.OK = c.OK && check.Status != broken
	}
	return c
}

func (d *doctor) say(status, name, todo, detail string, args ...any) {
	for i, arg := range args {
		if err, is := arg.(error); is {
			args[i] = errs.Text(err)
		}
	}
	d.checks = append(d.checks, Check{Name: name, Status: status,
		Detail: telemetry.WithoutCredentials(fmt.Sprintf(detail, args...)), Todo: todo})
}

// configured reports whether there is a configuration to go on with.
func (d *doctor) configured(environ map[string]string) bool {
	cfg, _, err := Configure(environ, d.role, io.Discard)
	if err != nil {
		for fault := range strings.Lines(err.Error()) {
			d.say(broken, "configuration", "correct the variable", "%s", strings.TrimSpace(fault))
		}
		return false
	}
	d.pipeline = pipeline{cfg: cfg, log: slog.New(slog.DiscardHandler), registry: telemetry.NewRegistry()}
	d.say(well, "configuration", "", "every variable can be read")
	for _, warned := range config.Misspelled(environ) {
		d.say(warning, "configuration", "correct the name", "%v", warned)
	}
	return true
}

// examine looks at the parts that both roles have, and by listings at those of the database that an api has besides.
func (d *doctor) examine(ctx context.Context, listings func(context.Context)) {
	if !d.opened(ctx) {
		d.say(warning, "own endpoint", "repair what is above first", "not looked at")
		d.say(warning, "receivers", "repair what is above first", "not looked at")
		d.examineQueue(ctx)
		return
	}
	defer d.close(ctx)
	reached := d.examineDatabase(ctx)
	if reached {
		d.examineWaiting(ctx)
		listings(ctx)
	}
	d.examineQueue(ctx)
	d.examineEndpoint(ctx)
	if !reached {
		d.say(warning, "receivers", "repair the database first", "not looked at")
		return
	}
	d.examineReceivers(ctx)
}

// opened reports whether the pipeline could be built. It does so without connecting to anything or making anything.
func (d *doctor) opened(ctx context.Context) bool {
	if _, err := os.Stat(d.cfg.SQLitePath()); d.cfg.DatabaseURL == "" && errors.Is(err, fs.ErrNotExist) {
		d.say(broken, "database", "start `api serve` once, or set DATA_DIR or DATABASE_URL",
			"there is none in DATA_DIR (%s)", d.cfg.DataDir)
		return false
	}
	if err := d.open(ctx, use{profile: database.Serving, noReaders: d.role != config.ForAPI, asItIs: true}); err != nil {
		d.say(broken, "database", "correct DATABASE_URL, or let this user read and write DATA_DIR", "it cannot be opened: %v",
			err)
		return false
	}
	return true
}

func (d *doctor) close(ctx context.Context) {
	if err := d.pipeline.Close(); err != nil {
		d.log.WarnContext(ctx, "close failed", "error", err)
	}
}
