// Package figures has the counts that an operator sees of all processes together. One process counts the shared state
// every ten seconds. Each process adds what it did itself to the steps of the last hour, which are as long. An api
// keeps that hour in memory, so that showing it costs the database nothing.
package figures

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

const (
	// StepLength is how long a point of the hour is.
	StepLength = 10 * time.Second
	kept       = 360 // steps
	minute     = 6   // steps
	reread     = 3   // steps that other processes may still add to
	deadline   = 5 * time.Second
)

// Sample is what a process did since its start.
type Sample struct{ Accepted, Delivered int64 }

// Process is one that runs.
type Process struct {
	Role    string    `json:"role"` // api, worker, or both
	Version string    `json:"version"`
	Since   time.Time `json:"started_at"`
}

// Works reports whether it does a worker's part.
func (p Process) Works() bool { return p.Role != "api" }

// Point is one step of the hour over all processes.
type Point struct {
	At        time.Time     `json:"at"`
	Accepted  float64       `json:"accepted_per_second"`
	Delivered float64       `json:"delivered_per_second"`
	Backlog   int64         `json:"backlog"`
	Oldest    time.Duration `json:"oldest_waiting_ns"`
	Waiting   int64         `json:"waiting_deliveries"`
	Dead      int64         `json:"dead_deliveries"`
	Failing   int64         `json:"failing_receivers"`
	Paused    int64         `json:"paused_receivers"`
}

// Recorder adds this process's part and keeps the sum. It is safe for concurrent use.
type Recorder struct {
	store   store
	now     func() time.Time
	did     func() (Sample, error)
	process int64
	written Sample // up to where the table has it; Record's alone

	// mu guards what follows. Record writes steps, the caller of Counts writes counts, pages and gauges read both.
	mu     sync.RWMutex
	steps  map[int64]Point
	counts Counts
}

// New makes a recorder of what did returns.
func New(db *database.DB, now func() time.Time, did func() (Sample, error)) *Recorder {
	return &Recorder{store: store{db}, now: now, did: did, process: rand.Int64()}
}

// Record records what this process did since the last time; one that is no worker alone keeps the hour of all in memory
// too. It is to be called each StepLength. It writes before it reads. Counts that could not be written are part of the
// next step.
func (r *Recorder) Record(ctx context.Context, itself Process) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	current := stepOf(r.now())
	did, err := r.did()
	if err != nil {
		return err
	}
	err = r.store.add(ctx, current, r.process, itself,
		Sample{did.Accepted - r.written.Accepted, did.Delivered - r.written.Delivered})
	if err != nil {
		return err
	}
	r.written = did
	if err := r.store.trim(ctx, current-kept); err != nil || itself.Role == "worker" {
		return err
	}
	return r.refresh(ctx, current)
}

// Processes returns those that recorded one of the last steps.
func (r *Recorder) Processes(ctx context.Context) ([]Process, error) {
	current := stepOf(r.now())
	return r.store.processes(ctx, current-reread+1, current+1)
}

// refresh reads the hour.
func (r *Recorder) refresh(ctx context.Context, current int64) error {
	steps, err := r.store.since(ctx, current-kept)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = steps
	return nil
}

// Hour returns the last hour, oldest first, without the step that is under way. A step without a row was not counted:
// it has zeros.
func (r *Recorder) Hour() []Point {
	current := stepOf(r.now())
	points := make([]Point, 0, kept)
	r.mu.RLock()
	defer r.mu.RUnlock()
	for step := current - kept; step < current; step++ {
		p := r.steps[step]
		p.At = time.Unix(step*int64(StepLength/time.Second), 0).UTC()
		points = append(points, p)
	}
	return points
}

// Overview is the present at a glance; nil is a figure that no process has counted lately.
type Overview struct {
	Accepted  float64  `json:"accepted_per_second"` // of the last minute
	Delivered float64  `json:"delivered_per_second"`
	Backlog   *float64 `json:"backlog"` // requests that wait for their estimates
	Oldest    *float64 `json:"oldest_waiting_seconds"`
	Waiting   *float64 `json:"waiting_deliveries"`
	Dead      *float64 `json:"dead_deliveries"`
	Failing   *float64 `json:"failing_receivers"`
	Paused    *float64 `json:"paused_receivers"`
}

// Overview reads what all processes did and counted, for one that records nothing itself.
func (r *Recorder) Overview(ctx context.Context) (o Overview, err error) {
	if err := r.refresh(ctx, stepOf(r.now())); err != nil {
		return o, err
	}
	for _, p := range r.Hour()[kept-minute:] {
		o.Accepted, o.Delivered = o.Accepted+p.Accepted/minute, o.Delivered+p.Delivered/minute
	}
	n, err := r.store.newest(ctx)
	if err != nil || n.At.Before(r.now().Add(-outdated)) {
		return o, err
	}
	number := func(n int64) *float64 { return new(float64(n)) }
	o.Backlog, o.Oldest, o.Waiting, o.Dead = number(n.Enqueued), new(n.Oldest.Seconds()), number(n.Pending), number(n.Dead)
	o.Failing, o.Paused = number(n.Failing), number(n.Paused)
	return o, nil
}

// stepOf returns the step of ten seconds that a time is in.
func stepOf(at time.Time) int64 { return at.Unix() / int64(StepLength/time.Second) }

// perSecond returns a step's number as a rate.
func perSecond(n int64) float64 { return float64(n) / StepLength.Seconds() }
