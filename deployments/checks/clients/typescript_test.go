package clients_test

import (
	"os"
	"os/exec"
	"testing"
)

// nodeStory returns the whole story by the client that the generator made for TypeScript.
func nodeStory(generator string) func(t *testing.T, s *service, base, key string) {
	return func(t *testing.T, s *service, base, key string) {
		const built = "../../../bin/clients/typescript"
		if _, err := os.Stat(built + "/build"); err != nil {
			t.Skipf("NOT TESTED: npm is missing or its registry is not reachable: %v", err)
		}
		cmd := exec.CommandContext(t.Context(), "node", "build/"+generator+".js")
		cmd.Dir = built
		cmd.Env = append(os.Environ(), "BASE="+base, "API_KEY="+key, "PULSE_KEY="+s.PulseKey, "TRACKER_KEY="+s.TrackerKey,
			"RECEIVER="+s.Receiver)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}
