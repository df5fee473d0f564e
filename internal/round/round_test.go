package round_test

import (
	"cmp"
	"math"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/round"
)

const firstOfDay = 1 << 36 // uids of a partition's day

var (
	day  = rapid.Int64Range(0, 1<<17)
	at   = rapid.Int64Range(0, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	form = regexp.MustCompile(`^msg_[0-9A-Za-z]{19}$`)
)

func event(rt *rapid.T) round.Event {
	uid := day.Draw(rt, "day")*firstOfDay + rapid.Int64Range(0, firstOfDay-1).Draw(rt, "of the day")
	return round.NewEvent(uid, time.UnixMicro(at.Draw(rt, "time")))
}

func TestWebhookIDs_are_within_their_partition_and_ordered_by_day_and_then_by_time(t *testing.T) {
	t.Parallel()
	kinds := rapid.SampledFrom([]round.Kind{round.OwnEndpoint, round.Receiver})
	rapid.Check(t, func(rt *rapid.T) {
		a, b := event(rt), event(rt)
		idA, idB := a.WebhookID(kinds.Draw(rt, "kind")), b.WebhookID(kinds.Draw(rt, "kind"))
		for id, uid := range map[string]int64{idA: a.UID, idB: b.UID} {
			first := uid / firstOfDay * firstOfDay
			if !form.MatchString(id) || !round.IsWebhookID(id) {
				rt.Fatalf("%s has not the form of an id", id)
			}
			if id <= round.Border(first) || id >= round.Border(first+firstOfDay) || round.Border(uid) != round.Border(first) {
				rt.Fatalf("%s of %d is not between %s and %s", id, uid, round.Border(first), round.Border(first+firstOfDay))
			}
		}
		want := cmp.Or(cmp.Compare(a.UID/firstOfDay, b.UID/firstOfDay), cmp.Compare(a.At/4000, b.At/4000))
		if got := cmp.Compare(idA, idB); want != 0 && got != want {
			rt.Fatalf("%s of %v and %s of %v compare as %d, want %d", idA, a, idB, b, got, want)
		}
	})
}

func TestWebhookIDs_of_two_events_differ_even_of_one_number_in_one_moment(t *testing.T) {
	t.Parallel()
	now, seen := time.Now(), map[string]bool{}
	for range 20_000 {
		e := round.NewEvent(7, now)
		for _, kind := range []round.Kind{round.OwnEndpoint, round.Receiver} {
			id := e.WebhookID(kind)
			if seen[id] || id != e.WebhookID(kind) {
				t.Fatalf("%s was made before, or is made once", id)
			}
			seen[id] = true
		}
	}
}

// Ids of one day and moment have the day and the moment in common, and not the number.
func TestWebhookID_shows_no_count(t *testing.T) {
	t.Parallel()
	const head = len("msg_") + 10
	now := time.Now()
	of := func(uid int64) string { return round.NewEvent(uid, now).WebhookID(round.OwnEndpoint) }
	rapid.Check(t, func(rt *rapid.T) {
		first := day.Draw(rt, "day") * firstOfDay
		less := rapid.Int64Range(0, firstOfDay-2).Draw(rt, "number")
		more := rapid.Int64Range(less+1, firstOfDay-1).Draw(rt, "greater number")
		if a, b := of(first+less), of(first+more); a[:head] != b[:head] {
			rt.Fatalf("%s and %s differ in what comes before the nonce", a, b)
		}
	})
	smaller := 0
	const pairs = 4000
	for i := range int64(pairs) {
		if of(i) < of(i+1) {
			smaller++
		}
	}
	if smaller < pairs*4/10 || smaller > pairs*6/10 { // 12 standard deviations
		t.Errorf("of %d pairs %d are in the order of their numbers", pairs, smaller)
	}
}

func TestIsWebhookID_only_of_what_deliveries_are_called(t *testing.T) {
	t.Parallel()
	id := round.NewEvent(math.MaxInt32, time.Now()).WebhookID(round.Receiver)
	for text, want := range map[string]bool{
		id: true, id[1:]: false, id + "0": false, id[:len(id)-1]: false, id[:len(id)-1] + "-": false, "": false,
		"msg_1": false, "MSG_" + id[4:]: false, "msg_test_abcdefghijklmn": false,
	} {
		if got := round.IsWebhookID(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
