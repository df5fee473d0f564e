package queue

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// The answers of NATS 2.15.2, shortened: of a server alone, of a leader, and of one that the two others have left.
func TestStream_for_which_a_server_answers_without_a_leader_has_no_quorum(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer string
		lacks  bool
	}{
		"a server alone": {`{"config":{"name":"MR"}}`, false},
		"a leader": {`{"config":{"name":"MR"},"cluster":{"name":"supplyhub","leader":"n0",
			"replicas":[{"name":"n1","current":true},{"name":"n2","current":true}]}}`, false},
		"one that is left": {`{"config":{"name":"MR"},"cluster":{"name":"supplyhub","replicas":[
			{"name":"n0","current":true},{"name":"n1","current":false},{"name":"n2","current":false}]}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var info jetstream.StreamInfo
			if err := json.Unmarshal([]byte(tt.answer), &info); err != nil {
				t.Fatal(err)
			}
			err := Config{Stream: "MR"}.leaderless(&info)
			if (err != nil) != tt.lacks || err != nil && !strings.Contains(err.Error(), "may have no quorum") {
				t.Errorf("got %v", err)
			}
		})
	}
}
