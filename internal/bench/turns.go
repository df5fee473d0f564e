package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	burstDuration = 3 * time.Second
	settle        = 300 * time.Millisecond // a burst's remainder is counted with it
	heard         = 2 * time.Second        // all workers know by then who owns what
	roundsDefault = 6

	scaleSuppliers = 200 // that workers share
)

// contender is one of the stacks that are compared in turns.
type contender struct {
	name, tree string // the checkout that its binaries are built from
	env        []string
	workers    int
	suppliers  int  // that send in turn; 0: one
	peer       bool // the one with River, instead of this service

	*pipeline
	running []*exec.Cmd              // the workers
	seen    [len(compared)][]float64 // by figure, one of each round
}

const deliveredFigure, cpuFigure = 1, 2 // in compared

// compared are the figures of a burst, as they are printed.
var compared = [...]struct{ name, form string }{
	{"accepted/s", "%.0f"},
	{"delivered/s", "%.0f"},
	{"CPU s per 1,000", "%.3f"},
	{"  of it api", "%.3f"},
	{"  of it worker", "%.3f"},
	{"  of it postgres", "%.3f"},
	{"  of it nats-server", "%.3f"},
	{fmt.Sprintf("ms to webhook at %d/s, p50", pacedRate), "%.1f"},
	{fmt.Sprintf("ms to webhook at %d/s, p99", pacedRate), "%.1f"},
	{"MiB of the workers", "%.0f"},
	{"the busiest worker's CPU, of its part", "%.2f"},
	{"reads of an estimated request/s", "%.0f"},
}

// turnsBench compares this tree with the checkouts OTHER names (default: this tree) on a machine whose speed changes by
// the minute: all stacks are up and take turns of a few seconds, twice in each of ROUNDS. The others' processes have
// OTHER_ENV (NAME=value ...) besides, and for each number in OTHER_WORKERS there is one stack with so many workers.
func turnsBench(ctx context.Context) error {
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("ROUNDS"), strconv.Itoa(roundsDefault)))
	if err != nil {
		return fmt.Errorf("ROUNDS: %w", err)
	}
	contenders := []*contender{{name: "this tree", workers: 1}}
	for tree := range strings.FieldsSeq(cmp.Or(os.Getenv("OTHER"), ".")) {
		for text := range strings.FieldsSeq(cmp.Or(os.Getenv("OTHER_WORKERS"), "1")) {
			n, err := strconv.Atoi(text)
			if err != nil {
				return fmt.Errorf("OTHER_WORKERS: %w", err)
			}
			contenders = append(contenders, &contender{name: fmt.Sprintf("%s, workers: %d", filepath.Base(tree), n),
				tree: tree, env: strings.Fields(os.Getenv("OTHER_ENV")), workers: n})
		}
	}
	fmt.Println(machine())
	return inTurns(ctx, contenders, rounds)
}

// scale compares several workers with one under the same load of many suppliers, at the same moments.
func scale(ctx context.Context) error {
	atOnce = true
	for _, n := range []int{2, 4, 8} {
		contenders := []*contender{{name: "workers: 1", workers: 1, suppliers: scaleSuppliers},
			{name: fmt.Sprintf("workers: %d", n), workers: n, suppliers: scaleSuppliers}}
		if err := inTurns(ctx, contenders, roundsDefault/2); err != nil {
			return err
		}
	}
	return nil
}

// atOnce is whether the contenders share the machine at the same moments instead of taking turns (AT_ONCE=1): both then
// have the same share of a machine whose speed changes, and PostgreSQL's common processes count for neither.
var atOnce = os.Getenv("AT_ONCE") != ""

// inTurns measures the contenders and prints them. In each round their stacks were started in this order once and in
// the other one once: on a busy day those that were started last looked a third faster, whichever these were.
func inTurns(ctx context.Context, contenders []*contender, rounds int) error {
	order := slices.Clone(contenders)
	for range 2 {
		if err := bursts(ctx, order, rounds); err != nil {
			return err
		}
		slices.Reverse(order)
	}
	for _, c := range contenders {
		c.pairUp()
	}
	show(contenders)
	return nil
}

// bursts starts the contenders' stacks and makes so many bursts with each.
func bursts(ctx context.Context, contenders []*contender, each int) error {
	for _, c := range contenders {
		s, err := newStackOf(ctx, c.tree)
		if s != nil {
			defer s.close()
		}
		if err != nil {
			return err
		}
		if err := c.open(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	order := slices.Clone(contenders)
	for range each {
		group, running := errgroup.WithContext(ctx)
		if !atOnce {
			group.SetLimit(1)
		}
		for _, c := range order {
			group.Go(func() error {
				if err := c.burst(running); err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		slices.Reverse(order) // a burst costs more right after one of the same stack: each has as many of those
	}
	return nil
}

func (c *contender) open(ctx context.Context, s *stack) (err error) {
	if c.peer {
		if c.pipeline, err = s.startPeer(ctx); err != nil {
			return err
		}
		c.running = []*exec.Cmd{c.worker}
		return c.warm(ctx)
	}
	s.env = append(s.env, c.env...)
	if c.pipeline, err = s.started(ctx); err != nil {
		return err
	}
	if c.running, _, err = c.startWorkers(c.workers); err != nil {
		return err
	}
	if err := c.share(ctx, c.suppliers); err != nil {
		return err
	}
	wait(ctx, heard)
	return c.warm(ctx)
}

// burst runs as fast as answers come and then at a steady rate, for a few seconds each.
func (c *contender) burst(ctx context.Context) error {
	before, each := c.cpu(), c.eachWorker()
	flat, err := c.run(ctx, burstDuration, 0)
	if err != nil {
		return err
	}
	wait(ctx, settle)
	used, busiest := c.cpu().since(before), c.busiest(each)
	if !atOnce { // the burst's remainder in PostgreSQL is no part of a steady rate, nor of the next tree's
		if err := c.tidy(ctx); err != nil {
			return err
		}
	}
	paced, err := c.run(ctx, burstDuration, pacedRate)
	if err != nil {
		return err
	}
	wait(ctx, settle)
	reads := 0.0 // of a peer, which has no such operation
	if !c.peer {
		if reads, err = c.readsNewest(ctx, paced.Accepted, burstDuration); err != nil {
			return err
		}
	}
	memory := 0
	for _, worker := range c.running {
		memory += peakMemory(worker.Process.Pid)
	}
	values := []float64{flat.perSecond(), float64(flat.Delivered) / flat.DrainSeconds, used.per1000(flat.Delivered)}
	for _, program := range []string{"api", "worker", "postgres", "nats-server"} {
		values = append(values, usage{program: used[program]}.per1000(flat.Delivered))
	}
	for i, value := range append(values, inMilliseconds(paced.Delivery50), inMilliseconds(paced.Delivery99),
		float64(memory), busiest, reads) {
		c.seen[i] = append(c.seen[i], value)
	}
	return nil
}

// eachWorker returns the processor time so far of each worker.
func (c *contender) eachWorker() []time.Duration {
	times := make([]time.Duration, len(c.running))
	for i, worker := range c.running {
		times[i], _, _ = processTimes(worker.Process.Pid)
	}
	return times
}

// busiest returns how many times its equal part of the workers' time since then the busiest one used.
func (c *contender) busiest(before []time.Duration) float64 {
	var most, all time.Duration
	for i, now := range c.eachWorker() {
		most, all = max(most, now-before[i]), all+now-before[i]
	}
	return float64(most) * float64(len(before)) / float64(all)
}

// pairUp makes one figure a round of its two bursts, one on each of the stacks.
func (c *contender) pairUp() {
	for i, seen := range c.seen {
		rounds := len(seen) / 2
		for round := range rounds {
			seen[round] = (seen[round] + seen[rounds+round]) / 2
		}
		c.seen[i] = seen[:rounds]
	}
}

// show prints the middle of each figure, and of its ratios to the first contender's in the same round with the middle
// half of them.
func show(contenders []*contender) {
	first := contenders[0]
	fmt.Printf("%d rounds of bursts of %s, at once: %t\n", len(first.seen[0]), burstDuration, atOnce)
	for i, figure := range compared {
		for _, c := range contenders {
			fmt.Printf("  %-28s %-22s "+figure.form, figure.name, c.name, quantile(c.seen[i], 0.5))
			if c != first {
				fmt.Printf("   of the first %.3f (%.3f to %.3f)", c.ratio(first, i, 0.5), c.ratio(first, i, 0.25),
					c.ratio(first, i, 0.75))
			}
			fmt.Println()
		}
	}
}

// ratio returns the value that the part of the figure's ratios to the first contender's in the same round is not above.
func (c *contender) ratio(first *contender, figure int, part float64) float64 {
	ratios := make([]float64, len(c.seen[figure]))
	for round, value := range c.seen[figure] {
		ratios[round] = value / first.seen[figure][round]
	}
	return quantile(ratios, part)
}

// quantile returns the value that the part of all values is not above.
func quantile(values []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(part*float64(len(sorted)-1)+0.5)]
}
