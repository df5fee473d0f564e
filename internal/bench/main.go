// Command bench measures the service against the bare limits of the machine that it runs on, all in one run: the load
// comes from a process of its own, PostgreSQL and NATS are real processes with real fsync. `make bench` starts it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	_ "github.com/supplyhub/supplyhub/internal/database/sqlite" // the embedded engine's bare limits
)

func main() {
	runtime.LockOSThread() // what is started is killed when the thread that started it ends
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	part := ""
	if len(os.Args) > 1 {
		part = os.Args[1]
	}
	run, known := map[string]func(context.Context) error{
		"":              whole(measure),
		"pipeline":      whole(pipelineOnly),
		"memory":        whole(memoryBench),
		"river":         func(ctx context.Context) error { return besideRiver(ctx, &plot{}) },
		"sessions":      whole(sessionsOnly),
		"tracker":       whole(trackerBench),
		"tracker-cache": whole(cacheBench),
		"neighbours":    whole(neighbours),
		"size":          whole(size),
		"receivers":     whole(receiversBench),
		"queue":         whole(queueBench),
		"commands":      whole(commandsBench),
		"sweeper":       whole(sweeperBench),
		"recovery":      whole(recovery),
		"pages":         pagesBench,
		"lists":         listsBench,
		"bytes":         whole(bytesBench),
		"citus":         citusBench,
		"turns":         turnsBench,
		"bare-tracker":  bareTracker,
		"load":          func(context.Context) error { return loadProcess() },
		"bare-http":     bareHTTP,
		"bare-sessions": bareSessionServer,
		"bare-inserts":  func(ctx context.Context) error { return bareSessionRows(ctx, false) },
		"bare-updates":  func(ctx context.Context) error { return bareSessionRows(ctx, true) },
		"bare-rows":     bareRows,
		"bare-publish":  barePublish,
	}[part]
	if !known {
		fmt.Fprintf(os.Stderr, "bench: unknown part %q\n", part)
		os.Exit(1)
	}
	err := run(ctx)
	if err != nil {
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
