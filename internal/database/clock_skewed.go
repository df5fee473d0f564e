//go:build skewedclock

package database

import (
	"os"
	"strings"
	"time"
)

// machineTime returns a clock that is wrong by what SUPPLYHUB_TEST_CLOCK says, or, after an @, the file that it names,
// in builds for tests alone.
func machineTime() time.Time {
	text := os.Getenv("SUPPLYHUB_TEST_CLOCK")
	if path, isFile := strings.CutPrefix(text, "@"); isFile {
		content, _ := os.ReadFile(path)
		text = strings.TrimSpace(string(content))
	}
	skew, _ := time.ParseDuration(text)
	return time.Now().Add(skew).Round(0).UTC()
}
