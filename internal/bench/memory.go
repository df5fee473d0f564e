package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// production are the stack's programs besides PostgreSQL; the load generator runs beside them.
var production = []string{"api", "worker", "nats-server"}

// footprint is the memory of each program of the stack in KiB, by its name: pages that processes share count once
// (PSS).
type footprint map[string]int64

// memory returns what the stack's running processes and the whole PostgreSQL cluster hold now.
func (s *stack) memory() footprint {
	held := footprint{"postgres": pss(s.postmaster)}
	for _, cmd := range s.procs {
		if name := filepath.Base(cmd.Path); cmd.ProcessState == nil && slices.Contains(production, name) {
			held[name] += pss(cmd.Process.Pid)
		}
	}
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, entry := range entries {
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(entry))); err == nil && parentOf(pid) == s.postmaster {
			held["postgres"] += pss(pid)
		}
	}
	return held
}

// most returns the most that was held at one time, looked at every second until ctx ends.
func (s *stack) most(ctx context.Context) (most footprint) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if now := s.memory(); now.total() > most.total() {
			most = now
		}
		select {
		case <-ctx.Done():
			return most
		case <-ticker.C:
		}
	}
}

func (f footprint) total() (kib int64) {
	for _, n := range f {
		kib += n
	}
	return kib
}

// String returns the sum and each program's part, in MiB.
func (f footprint) String() string {
	names := slices.Sorted(maps.Keys(f))
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, f[name]>>10)
	}
	return fmt.Sprintf("%8d   %s", f.total()>>10, strings.Join(names, ", "))
}

// pss returns a process's share of the memory that it maps, in KiB; 0 for one that just ended.
func pss(pid int) (kib int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if n, _ := fmt.Sscanf(line, "Pss: %d kB", &kib); n == 1 {
			return kib
		}
	}
	return 0
}
