package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/supplyhub/supplyhub/internal/terminal"
)

// pseudoTerminal returns a terminal of so many columns and what is printed on it, once it is closed.
func pseudoTerminal(t *testing.T, columns uint16) (tty *os.File, printed func() string) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("NOT TESTED: no terminal can be opened: %v", err)
	}
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
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	text := make(chan string)
	go func() {
		all, _ := io.ReadAll(screen) // ends with EIO when no process has the terminal open
		text <- string(all)
	}()
	return tty, func() string {
		_ = tty.Close()
		defer screen.Close()
		return strings.ReplaceAll(<-text, "\r\n", "\n")
	}
}

func TestDeliveries_show_whole_whose_they_are_on_a_narrow_terminal(t *testing.T) {
	t.Parallel()
	tty, printed := pseudoTerminal(t, 60)
	const id, supplier = "msg_0aB1cD2eF3gH4iJ5kL6mN7", "sup_jzb3bynhedh5dyfljzb3bynhed"
	rows := []map[string]any{{"id": id, "status": "delivered", "request_id": 1234567, "destination": supplier}}
	if err := (table{rows, deliveryColumns(time.Now())}).writeText(terminal.New(tty)); err != nil {
		t.Fatal(err)
	}
	if text := printed(); !strings.Contains(text, id) || !strings.Contains(text, supplier) {
		t.Errorf("an id is broken:\n%s", text)
	}
}

func TestLists_take_the_width_of_the_terminal_and_break_no_id(t *testing.T) {
	t.Setenv("DATA_DIR", t.TempDir())
	t.Setenv("DATABASE_URL", "")
	t.Setenv("LOG_FORMAT", "json")
	o := &commander{T: t}
	o.run(0, "migrate")
	id, _ := o.run(1, "supplier", "create", "--name", strings.Repeat("ã", 255), "--webhook-url",
		"https://example.com/"+strings.Repeat("x", 200))["id"].(string)
	o.run(1, "tracker", "client", "create", "--name", strings.Repeat("b", 255))
	for _, columns := range []uint16{80, 132} {
		for command, has := range map[string]string{"supplier list": id, "receiver list": id, "tracker client list": "trk_",
			"rate list": "road", "settings list": "scoreboard.daily_quota"} {
			tty, printed := pseudoTerminal(t, columns)
			if code := run(t.Context(), strings.Fields(command), tty, io.Discard); code != 0 {
				t.Errorf("%s: exit code %d", command, code)
			}
			text := printed()
			if !strings.Contains(text, has) {
				t.Errorf("%s lacks %s:\n%s", command, has, text)
			}
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > int(columns) {
					t.Errorf("%s: %d of %d columns: %s", command, n, columns, line)
				}
			}
		}
	}
}
