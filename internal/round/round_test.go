package round_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/round"
)

func TestWebhookID_is_the_same_each_time_and_leads_back(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		uid := rapid.Int64Range(0, math.MaxInt64).Draw(rt, "uid")
		number := rapid.Int64Range(1, math.MaxUint32).Draw(rt, "number")
		kind := rapid.SampledFrom([]round.Kind{round.OwnEndpoint, round.Receiver}).Draw(rt, "kind")
		id := round.WebhookID(uid, number, kind)
		gotUID, gotNumber, gotKind, ok := round.ParseWebhookID(id)
		if !ok || gotUID != uid || gotNumber != number || gotKind != kind {
			rt.Fatalf("%s leads to %d/%d/%d, %v", id, gotUID, gotNumber, gotKind, ok)
		}
		if next := round.WebhookID(uid, number+1, kind); uid < math.MaxInt64 && number < math.MaxUint32 && next <= id {
			rt.Fatalf("%s is not behind %s", next, id)
		}
		if id < round.EarlierPrefix+"vvvv" {
			rt.Fatalf("%s looks like an id made before rounds were numbered", id)
		}
	})
}

func TestRound_text_leads_back(t *testing.T) {
	t.Parallel()
	want := round.Round{SupplierID: "sup_é", RequestID: math.MinInt64, UID: 7, Number: 2}
	if got, ok := round.Parse(want.String()); !ok || got != want {
		t.Fatalf("%q leads to %+v, %v", want.String(), got, ok)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("sup_1/5/7/1")
	f.Add("a/b/c/d")
	f.Add("/1/1/1")
	f.Add("sup/01/1/1")
	f.Fuzz(func(t *testing.T, text string) {
		if r, ok := round.Parse(text); ok && r.String() != text {
			t.Fatalf("%q is read as %q", text, r.String())
		}
		if uid, number, kind, ok := round.ParseWebhookID(text); ok && round.WebhookID(uid, number, kind) != text {
			t.Fatalf("%q is read as %d/%d/%d", text, uid, number, kind)
		}
	})
}
