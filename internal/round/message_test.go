package round_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/round"
)

func TestMessages_name_each_round_once_under_its_suppliers_shard(t *testing.T) {
	t.Parallel()
	rounds := []round.Round{{SupplierID: "acme", RequestID: math.MinInt64, UID: 7, Number: 1},
		{SupplierID: "é", RequestID: 1, UID: 8, Number: 2}, {SupplierID: "acme", RequestID: 2, UID: 9, Number: 1}}
	var named []round.Round
	for _, m := range round.Messages(rounds) {
		read, ok := round.ParseMessage(round.Subject(m.Shard), m.Body())
		if diff := cmp.Diff(m, read); !ok || diff != "" {
			t.Errorf("%t, read as (-want +got):\n%s", ok, diff)
		}
		named = append(named, m.Rounds...)
	}
	if len(named) != len(rounds) {
		t.Errorf("named are %v", named)
	}
	if none := round.Messages(nil); len(none) > 0 {
		t.Errorf("of no rounds there are %v", none)
	}
}

func TestParseMessage_refuses_what_no_publisher_writes(t *testing.T) {
	t.Parallel()
	acme := round.Subject(round.ShardOf("acme"))
	other := round.Subject((round.ShardOf("acme") + 1) % round.Shards)
	for _, tt := range []struct{ subject, body string }{
		{"", ""}, {"mr", ""}, {"mr.", ""}, {"mr.work.", ""}, {"mr.work.00", ""}, {"mr.work.-1", ""}, {"mr.work.32", ""},
		{"mr.work.x", ""}, {"xx.work.1", ""}, {"mr.work.1 ", ""}, {acme, "acme/1/1/1"}, {acme, "acme/1/1/1\n\n"},
		{acme, "acme/1/1/1\nacme/1\n"}, {acme, "acme/1/1/1\r\n"}, {acme, "\n"}, {acme, "paused\n"},
		{other, "acme/1/1/1\n"},
	} {
		if m, ok := round.ParseMessage(tt.subject, []byte(tt.body)); ok {
			t.Errorf("%q %q is read as %+v", tt.subject, tt.body, m)
		}
	}
}

// FuzzMessage: a message that is read is written again as it was.
func FuzzMessage(f *testing.F) {
	f.Add("mr.work.1", []byte(nil))
	f.Add("mr.work.1", []byte("paused"))
	for _, text := range []string{"acme/1/1/1\nacme/2/2/1\n", "a/b/c/d\n", "/1/1/1\n", "acme/01/1/1\n"} {
		f.Add(round.Subject(round.ShardOf("acme")), []byte(text))
	}
	f.Fuzz(func(t *testing.T, subject string, body []byte) {
		m, ok := round.ParseMessage(subject, body)
		if ok && (round.Subject(m.Shard) != subject || string(m.Body()) != string(body)) {
			t.Fatalf("%q %q became %q %q", subject, body, round.Subject(m.Shard), m.Body())
		}
	})
}

func TestShardOf_spreads_suppliers_and_never_changes(t *testing.T) {
	t.Parallel()
	const each = 40
	count := make([]int, round.Shards)
	for i := range each * round.Shards {
		count[round.ShardOf(fmt.Sprintf("sup_%d", i))]++
	}
	if least, most := slices.Min(count), slices.Max(count); least < each/3 || most > 3*each {
		t.Errorf("between %d and %d of %d suppliers a shard", least, most, each*round.Shards)
	}
	for id, want := range map[string]int{"sup_1": 29, "sup_zhx2v": 16} { // they are stored
		if got := round.ShardOf(id); got != want {
			t.Errorf("%s is in shard %d, was in %d", id, got, want)
		}
	}
}
