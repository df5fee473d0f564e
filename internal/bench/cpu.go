package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const ticksPerSecond = 100 // of /proc/<pid>/stat, on every Linux that Go runs on

// usage is the processor time of each program of the stack, by its name.
type usage map[string]time.Duration

// cpu returns the processor time so far of the stack's running processes and of the whole PostgreSQL cluster; at once
// with others, of its connections alone.
func (s *stack) cpu() usage {
	used := usage{"postgres": s.postgresCPU()}
	for _, cmd := range s.procs {
		if cmd.ProcessState == nil {
			own, _, _ := processTimes(cmd.Process.Pid) // one that just ended counts nothing
			used[filepath.Base(cmd.Path)] += own
		}
	}
	return used
}

// since returns what was used after before.
func (u usage) since(before usage) usage {
	used := usage{}
	for name, t := range u {
		used[name] = t - before[name]
	}
	return used
}

// per1000 returns the CPU seconds for every thousand of n, in all.
func (u usage) per1000(n int64) float64 {
	var total time.Duration
	for _, t := range u {
		total += t
	}
	return total.Seconds() * 1000 / float64(n)
}

// postgresCPU returns the postmaster's time with that of its children, those that ended included, without the
// connections of other stacks; at once with them, of the children whose titles name the stack's database, and nothing
// of those that ended.
func (s *stack) postgresCPU() (total time.Duration) {
	address, err := url.Parse(s.database())
	if err != nil {
		return 0
	}
	database := " " + strings.Trim(address.Path, "/") + " "
	if !atOnce {
		own, children, err := processTimes(s.postmaster)
		if err != nil {
			return 0
		}
		total = own + children
	}
	entries, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
		if err != nil || parentOf(pid) != s.postmaster {
			continue
		}
		title, _ := os.ReadFile(entry)
		named := strings.Contains(string(title), database)
		if named || !atOnce && !strings.Contains(string(title), " "+databasePrefix) {
			child, _, _ := processTimes(pid)
			total += child
		}
	}
	return total
}

// statFields returns the fields of /proc/<pid>/stat behind the command's name: the first is the state.
func statFields(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 16 {
		return nil, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	return fields, nil
}

func parentOf(pid int) int {
	fields, err := statFields(pid)
	if err != nil {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

func processTimes(pid int) (own, children time.Duration, err error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, 0, err
	}
	ticks := func(i int) time.Duration {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return time.Duration(n) * time.Second / ticksPerSecond
	}
	return ticks(11) + ticks(12), ticks(13) + ticks(14), nil
}

// peakMemory returns the most memory that the process had, in MiB.
func peakMemory(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	return 0
}
