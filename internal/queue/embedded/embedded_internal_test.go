package embedded

import (
	"bytes"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// While its disk is full the server says so every 2 s.
func TestServerLog_repeats_the_same_trouble_once_a_minute(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := serverLog{telemetry.NewLogger(&out, "json", "info", false)}
	for range 5 {
		l.Errorf("%s: no space left on device", "a.blk")
		l.Errorf("%s: no space left on device", "b.blk")
		l.Warnf("slow: %s", "fsync")
	}
	for text, level := range map[string]string{"a.blk": "ERROR", "b.blk": "ERROR", "fsync": "WARN"} {
		if n := strings.Count(out.String(), text); n != 1 || !strings.Contains(out.String(), `"level":"`+level+`"`) {
			t.Errorf("%s is logged %d times at %s, want once:\n%s", text, n, level, out.String())
		}
	}
}
