package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// pseudoTerminal returns a terminal, and its screen, which is read.
func pseudoTerminal(t *testing.T) (tty, screen *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("NOT TESTED: no terminal can be opened: %v", err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	fd := int(screen.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return tty, screen
}

func TestTop_draws_on_a_terminal_until_it_is_interrupted(t *testing.T) {
	t.Setenv("DATA_DIR", t.TempDir())
	t.Setenv("DATABASE_URL", "")
	t.Setenv("LOG_FORMAT", "json")
	o := &commander{T: t}
	o.run(0, "migrate")
	tty, screen := pseudoTerminal(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"top"}, tty, io.Discard) }()
	lines := bufio.NewReader(screen)
	drawn := ""
	for !strings.Contains(drawn, "Paused receivers") {
		line, err := lines.ReadString('\n')
		if drawn += line; err != nil {
			t.Fatalf("%v after\n%s", err, drawn)
		}
	}
	interrupt()
	if code := <-ended; code != 0 || !strings.HasPrefix(drawn, toTop) {
		t.Errorf("exit code %d, drawn is\n%q", code, drawn)
	}
}
