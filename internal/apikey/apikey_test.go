package apikey_test

import (
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/apikey"
)

func TestFormat_knows_its_own_keys_and_the_earlier_ones_and_no_others(t *testing.T) {
	t.Parallel()
	f := apikey.Format{Prefix: "hub_ck_", Domain: "d\x00", Earlier: 43}
	without := apikey.Format{Prefix: "hub_sk_", Domain: "d\x00"}
	key, earlier := f.Generate(), "hub_ck_"+strings.Repeat("a7", 21)+"b"
	for _, k := range []string{key, earlier} {
		if !f.Valid(k) || without.Valid(k) {
			t.Errorf("%d characters: own %v, other %v", len(k), f.Valid(k), without.Valid(k))
		}
	}
	wrong := []byte(key)
	wrong[10] ^= 1
	for _, k := range []string{"", "hub_ck_", key + "a", key[:len(key)-1], string(wrong), earlier + "a",
		strings.ToUpper(key), " " + key, "hub_ck_" + strings.Repeat("-", 43)} {
		if f.Valid(k) {
			t.Errorf("%q is valid", k)
		}
	}
	if f.Generate() == key || f.Hash(key) == (apikey.Format{Domain: "e\x00"}).Hash(key) {
		t.Error("keys repeat, or families share their hashes")
	}
}
