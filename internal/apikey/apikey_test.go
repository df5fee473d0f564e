package apikey_test

import (
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/apikey"
)

func TestFormat_knows_its_own_keys_and_no_others(t *testing.T) {
	t.Parallel()
	f := apikey.Format{Prefix: "hub_ck_", Domain: "d\x00"}
	other := apikey.Format{Prefix: "hub_sk_", Domain: "d\x00"}
	key := f.Generate()
	if !f.Valid(key) || other.Valid(key) {
		t.Errorf("%s: own %v, other %v", key, f.Valid(key), other.Valid(key))
	}
	wrong := []byte(key)
	wrong[10] ^= 1
	for _, k := range []string{"", "hub_ck_", key + "a", key[:len(key)-1], string(wrong), strings.ToUpper(key),
		" " + key, "hub_ck_" + strings.Repeat("-", 43)} {
		if f.Valid(k) {
			t.Errorf("%q is valid", k)
		}
	}
	if f.Generate() == key || f.Hash(key) == (apikey.Format{Domain: "e\x00"}).Hash(key) {
		t.Error("keys repeat, or families share their hashes")
	}
}
