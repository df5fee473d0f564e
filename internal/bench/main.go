// Command bench measures the service against the bare limits of the machine that it runs on, all in one run: the load
// comes from a process of its own, PostgreSQL and NATS are real processes with real fsync. `make bench` starts it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	part := ""
	if len(os.Args) > 1 {
		part = os.Args[1]
	}
	var err error
	switch part {
	case "":
		err = onStack(ctx, measure)
	case "tracker":
		err = onStack(ctx, trackerBench)
	case "neighbours":
		err = onStack(ctx, neighbours)
	case "size":
		err = onStack(ctx, size)
	case "bare-tracker":
		err = bareTracker(ctx)
	case "load":
		err = loadProcess()
	case "bare-http":
		err = bareHTTP(ctx)
	case "bare-sessions":
		err = bareSessionServer(ctx)
	case "bare-inserts":
		err = bareSessionRows(ctx, false)
	case "bare-updates":
		err = bareSessionRows(ctx, true)
	case "bare-rows":
		err = bareRows(ctx)
	case "bare-publish":
		err = barePublish(ctx)
	default:
		err = fmt.Errorf("unknown part %q", part)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// environment variables between the bench and its parts.
const postgresVariable = "SUPPLYHUB_TEST_POSTGRES"

func required(name string) (string, error) {
	if v := os.Getenv(name); v != "" {
		return v, nil
	}
	return "", fmt.Errorf("%s is not set: run it by `make bench`", name)
}
