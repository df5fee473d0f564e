package cursor_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/cursor"
)

const newKey, oldKey = "new key", "old key"

func sealer(t interface{ Fatal(...any) }, secrets string) cursor.Sealer {
	s, err := cursor.New(secrets)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCursor_opens_on_every_replica_for_its_own_list_and_filters_alone(t *testing.T) {
	t.Parallel()
	parts := rapid.SliceOfN(rapid.String(), 1, 4)
	rapid.Check(t, func(rt *rapid.T) {
		own, other := parts.Draw(rt, "own"), parts.Draw(rt, "other")
		wantAt, wantUID := rapid.Int64().Draw(rt, "at"), rapid.Int64().Draw(rt, "uid")
		text := sealer(rt, newKey).List(own...).Seal(wantAt, wantUID)

		var at, uid int64
		if !sealer(rt, newKey).List(own...).Open(text, &at, &uid) || at != wantAt || uid != wantUID {
			rt.Fatalf("%q opened as %d and %d, want %d and %d", text, at, uid, wantAt, wantUID)
		}
		same := strings.Join(own, "\x00") == strings.Join(other, "\x00")
		if !same && sealer(rt, newKey).List(other...).Open(text, &at, &uid) {
			rt.Fatalf("a cursor of %q opened for %q", own, other)
		}
		if sealer(rt, newKey).List(own...).Open(text, &at) {
			rt.Fatal("a cursor of two numbers opened as one of one")
		}
	})
}

func TestCursor_with_one_character_changed_added_or_left_out_is_refused(t *testing.T) {
	t.Parallel()
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/ \n\x00é"
	list := sealer(t, newKey).List("requests", "supplier")
	text := list.Seal(7)
	var uid int64
	for i := range text {
		for _, digit := range digits {
			for _, wrong := range []string{text[:i] + string(digit) + text[i+1:], text[:i] + string(digit) + text[i:],
				text[:i] + text[i+1:]} {
				if wrong != text && list.Open(wrong, &uid) {
					t.Fatalf("%q was taken for %q", wrong, text)
				}
			}
		}
	}
	if list.Open("", &uid) || list.Open(text+text, &uid) || uid != 0 {
		t.Error("an empty cursor, or two of them, was taken for one")
	}
}

func TestCursor_holds_while_SECRETS_KEY_is_rotated(t *testing.T) {
	t.Parallel()
	var uid int64
	before := sealer(t, oldKey).List("requests").Seal(7)
	if !sealer(t, newKey+", "+oldKey).List("requests").Open(before, &uid) || uid != 7 {
		t.Error("a cursor sealed with the old key does not open when the new key is there")
	}
	if sealer(t, newKey).List("requests").Open(before, &uid) {
		t.Error("a cursor sealed with a key that is gone opens")
	}
}

func TestCursor_shows_no_count(t *testing.T) {
	t.Parallel()
	list := sealer(t, newKey).List("requests")
	first, again := list.Seal(7), list.Seal(7)
	if first == again {
		t.Error("the same row has the same cursor twice: cursors could be compared")
	}
}
