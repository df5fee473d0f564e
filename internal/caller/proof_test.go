package caller_test

import (
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/caller"
)

func TestProof_holds_for_the_signature_it_was_made_for_and_for_every_key(t *testing.T) {
	t.Parallel()
	of := func(secrets string) caller.Proofs {
		p, err := caller.NewProofs(secrets)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	old, rotated, none := of("old"), of("new, old"), of("")
	for _, tt := range []struct {
		name             string
		by               caller.Proofs
		signature, proof string
		want             bool
	}{
		{"its own", old, "v1,a", old.Of("v1,a", 7, 2), true},
		{"of the key before", rotated, "v1,a", old.Of("v1,a", 7, 2), true},
		{"of the next key", old, "v1,a", rotated.Of("v1,a", 7, 2), false},
		{"of another call", old, "v1,b", old.Of("v1,a", 7, 2), false},
		{"of another round", old, "v1,a", strings.Replace(old.Of("v1,a", 7, 2), "7/2/", "7/3/", 1), false},
		{"of another request", old, "v1,a", strings.Replace(old.Of("v1,a", 7, 2), "7/2/", "72/2/", 1), false},
		{"of no round", old, "v1,a", strings.TrimPrefix(old.Of("v1,a", 7, 2), "7/2/"), false},
		{"no proof", old, "v1,a", "", false},
		{"no base64", old, "v1,a", "7/2/?", false},
		{"nothing in base64", old, "v1,a", "7/2/", false},
		{"no key", none, "v1,a", none.Of("v1,a", 7, 2), false},
		{"a proof and no key", none, "v1,a", old.Of("v1,a", 7, 2), false},
	} {
		uid, number, got := tt.by.Holds(tt.signature, tt.proof)
		if got != tt.want || got && (uid != 7 || number != 2) || !got && (uid != 0 || number != 0) {
			t.Errorf("%s: %v, %d/%d", tt.name, got, uid, number)
		}
	}
}
