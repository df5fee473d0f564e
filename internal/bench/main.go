// Command bench measures the service on the machine that it runs on: the load comes from a process of its own,
// PostgreSQL and NATS are real processes with real fsync. `make bench` and the other targets of that name start it, and
// it prints what it measured.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	runtime.LockOSThread() // a child is killed when the thread that started it ends
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	part := ""
	if len(os.Args) > 1 {
		part = os.Args[1]
	}
	run, known := map[string]func(context.Context) error{
		"":           pipelineBench,
		"neighbours": whole(neighbours),
		"receivers":  whole(receiversBench),
		"size":       whole(size),
		"tracker":    whole(trackerBench),
		"turns":      turnsBench,
		"load":       func(context.Context) error { return loadProcess() },
	}[part]
	if !known {
		fmt.Fprintf(os.Stderr, "bench: unknown part %q\n", part)
		os.Exit(1)
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// whole runs a measurement on a stack of its own.
func whole(measurement func(context.Context, *stack) error) func(context.Context) error {
	return func(ctx context.Context) error { return onStack(ctx, measurement) }
}

// environment variables between the bench and its parts.
const postgresVariable = "SUPPLYHUB_TEST_POSTGRES"

func required(name string) (string, error) {
	if v := os.Getenv(name); v != "" {
		return v, nil
	}
	return "", fmt.Errorf("%s is not set: run it by `make bench`", name)
}

// machine names what the figures are of.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores shared by load, api, worker, PostgreSQL and NATS, %s, %s", model, runtime.NumCPU(),
		runtime.Version(), time.Now().Format(time.DateOnly))
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", inMilliseconds(d)) }

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
