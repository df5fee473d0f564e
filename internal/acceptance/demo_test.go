package acceptance

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

// fourFree is the first of four neighbouring ports that are free.
func fourFree(t *testing.T) int {
	t.Helper()
	for first := 20000 + os.Getpid()%8000; first < 32000; first += 4 {
		free := 0
		for port := first; port < first+4; port++ {
			if l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
				free++
				_ = l.Close()
			}
		}
		if free == 4 {
			return first
		}
	}
	t.Fatal("there are no four free ports")
	return 0
}

func TestDemo_shows_a_request_from_the_call_to_the_webhook(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "../../deployments/demo/demo.sh", apptest.Binary(t, "api"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "DEMO_PORT=" + strconv.Itoa(fourFree(t))}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, part := range []string{"failing, ", "signature   holds", "SCOREBOARD", "/portal/"} {
		if !strings.Contains(string(out), part) {
			t.Errorf("the demo shows no %q:\n%s", part, out)
		}
	}
}
