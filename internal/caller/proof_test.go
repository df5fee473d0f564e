package caller_test

import (
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
		{"its own", old, "v1,a", old.Of("v1,a"), true},
		{"of the key before", rotated, "v1,a", old.Of("v1,a"), true},
		{"of the next key", old, "v1,a", rotated.Of("v1,a"), false},
		{"of another call", old, "v1,b", old.Of("v1,a"), false},
		{"no proof", old, "v1,a", "", false},
		{"no base64", old, "v1,a", "?", false},
		{"no key", none, "v1,a", none.Of("v1,a"), false},
		{"a proof and no key", none, "v1,a", old.Of("v1,a"), false},
	} {
		if got := tt.by.Holds(tt.signature, tt.proof); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
