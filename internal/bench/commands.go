package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// commandsBench runs the operator's commands that read or change very many rows, and prints what each one took.
func commandsBench(ctx context.Context, s *stack) error {
	if _, err := s.filledLists(ctx, storedRequests); err != nil {
		return err
	}
	oldest, err := s.oldestDay(ctx)
	if err != nil {
		return err
	}
	for _, line := range []string{
		"verify",
		"request list",
		"request list --limit 0 -o json",
		"request list --status failed --limit 0",
		"delivery list",
		"delivery list --limit 0 -o json",
		"delivery list --status dead --limit 0",
		"delivery redeliver --status dead --since 2000-01-01T00:00:00Z --yes",
		"retention run --before " + oldest,
		"verify",
	} {
		if err := s.timed(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

// oldestDay returns the end of the first tenth of the requests.
func (s *stack) oldestDay(ctx context.Context) (string, error) {
	conn, err := pgx.Connect(ctx, s.database())
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	var at int64
	err = conn.QueryRow(ctx, `SELECT min(created_at) + (max(created_at) - min(created_at)) / $1 FROM material_requests`,
		sizeDays).Scan(&at)
	return time.UnixMicro(at).UTC().Format(time.RFC3339), err
}

// timed runs a command and prints how long it took, what it held in memory at most, and how much it printed.
func (s *stack) timed(ctx context.Context, line string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.dir, "api"), strings.Fields(line)...)
	cmd.Env, cmd.Stderr = s.env, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	printed, err := io.Copy(io.Discard, out)
	if err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	fmt.Printf("  %8.1f s  %4d MiB  %6.1f MB printed  api %s\n", time.Since(begin).Seconds(),
		cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss>>10, float64(printed)/1e6, line)
	return nil
}
