package materials

import (
	"encoding/hex"
	"strings"
	"testing"
)

// Digests are compared with stored ones: one that changes makes equal requests different.
func TestCanonical_digests_of_stored_requests_stay(t *testing.T) {
	t.Parallel()
	text, variant, depth := "Ação <b>&", int64(-9), 1e-7
	for want, r := range map[string]Request{
		"00eccf97087f8120f8b214dd48459ab2336c4000e5d1ce879d13c9f2b1c9aded": {SupplierID: "sup_a", ID: 1, ShopCode: "S1",
			TraceID: "t", Materials: []Material{{MaterialID: 0, Material: "M", SKU: "K", Width: 1, Height: 2.5, Quantity: 1}}},
		"5a9e9044767f565da74da24bb79c94d33f96f7fed1a303836be6e1abd666dee4": {ID: -9223372036854775808,
			ShopCode: "Loja \u2028 1", Comment: &text, Materials: []Material{
				{MaterialID: 7, Material: "Painel", MaterialVariantID: &variant, MaterialVariant: &text, SKU: "a/b", Width: 1e6,
					Height: 0.1, Depth: &depth, Quantity: 2147483647},
				{MaterialID: 8, Material: "x", SKU: "y", Width: 0, Height: 123456.789, Quantity: 3},
			}},
	} {
		_, digest, err := r.canonical()
		if got := hex.EncodeToString(digest); err != nil || got != want {
			t.Errorf("request %d: digest %s, %v, want %s", r.ID, got, err, want)
		}
	}
}

// It is held and stored; a body is counted by its own length.
func TestCanonical_of_a_text_full_of_signs_is_as_long_as_its_body(t *testing.T) {
	t.Parallel()
	signs := strings.Repeat("<>&", 1000)
	text, _, err := Request{ShopCode: signs, Materials: []Material{}}.canonical()
	if err != nil || len(text) > len(signs)+100 {
		t.Errorf("%d bytes of %d, %v", len(text), len(signs), err)
	}
}
