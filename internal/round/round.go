// Package round names what travels between the packages: one round of one accepted request, and the webhook-ids that
// follow from it. It imports nothing of ours.
package round

import (
	"cmp"
	"encoding/base32"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

func encoding() *base32.Encoding { return base32.HexEncoding.WithPadding(base32.NoPadding) }

// Round is one estimation of one accepted request.
type Round struct {
	SupplierID string
	RequestID  int64 // the supplier's own id of the request; it may be used again after retention
	UID        int64 // the number of the accepted request, never used again
	Number     int64 // of the round, from 1
}

// Compare orders rounds by their requests' keys: in this order requests are locked.
func (r Round) Compare(other Round) int {
	return cmp.Or(strings.Compare(r.SupplierID, other.SupplierID), cmp.Compare(r.RequestID, other.RequestID),
		cmp.Compare(r.UID, other.UID), cmp.Compare(r.Number, other.Number))
}

// Partition is a range of uids whose events are stored together, and dropped together.
type Partition struct {
	Name           string
	First, End     int64     // uids; End is not of it
	Opened, Closed time.Time // when new requests began to be of it, and ceased; zero: they always were, they still are
	Settled        time.Time // when it was vacuumed for good; zero: not yet
	Kept           string    // why retention has not dropped it although all of it is old
}

// Kind is which of an event's deliveries a webhook-id names.
type Kind byte

// The kinds of deliveries.
const (
	OwnEndpoint Kind = 0 // to the service's own endpoint
	Receiver    Kind = 1 // to the supplier's receiver
)

// idPrefix begins every webhook-id made from a round; those made before rounds were numbered begin with EarlierPrefix.
const (
	idPrefix      = "msg_1"
	EarlierPrefix = "msg_0"
)

// WebhookID returns the id of the round's delivery of that kind: the same however often it is made. Ids are in the
// order of uids.
func (r Round) WebhookID(kind Kind) string { return WebhookID(r.UID, r.Number, kind) }

// WebhookID is Round.WebhookID for a round known by its numbers.
func WebhookID(uid, number int64, kind Kind) string {
	var raw [13]byte
	binary.BigEndian.PutUint64(raw[:8], uint64(uid))
	binary.BigEndian.PutUint32(raw[8:12], uint32(number))
	raw[12] = byte(kind)
	return idPrefix + strings.ToLower(encoding().EncodeToString(raw[:]))
}

// WebhookIDs returns the bounds of the ids of all deliveries of a request; end is of the next one.
func WebhookIDs(uid int64) (first, end string) {
	return WebhookID(uid, 0, OwnEndpoint), WebhookID(uid+1, 0, OwnEndpoint)
}

// ParseWebhookID inverts WebhookID; ok is false for any other text.
func ParseWebhookID(id string) (uid, number int64, kind Kind, ok bool) {
	text, found := strings.CutPrefix(id, idPrefix)
	raw, err := encoding().DecodeString(strings.ToUpper(text))
	if !found || err != nil || len(raw) != 13 {
		return 0, 0, 0, false
	}
	whole := binary.BigEndian.Uint64(raw[:8])
	if whole > math.MaxInt64 {
		return 0, 0, 0, false
	}
	uid, number, kind = int64(whole), int64(binary.BigEndian.Uint32(raw[8:12])), Kind(raw[12])
	return uid, number, kind, WebhookID(uid, number, kind) == id
}

// String returns the round as queued work names it: supplier/request/uid/number.
func (r Round) String() string {
	text := make([]byte, 0, len(r.SupplierID)+48)
	text = append(append(text, r.SupplierID...), '/')
	text = append(strconv.AppendInt(text, r.RequestID, 10), '/')
	text = append(strconv.AppendInt(text, r.UID, 10), '/')
	return string(strconv.AppendInt(text, r.Number, 10))
}

// Parse inverts String; ok is false for any other text.
func Parse(text string) (r Round, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 4 || parts[0] == "" || !utf8.ValidString(parts[0]) ||
		strings.ContainsFunc(parts[0], func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return Round{}, false
	}
	r.SupplierID = parts[0]
	for i, target := range []*int64{&r.RequestID, &r.UID, &r.Number} {
		n, err := strconv.ParseInt(parts[i+1], 10, 64)
		if err != nil {
			return Round{}, false
		}
		*target = n
	}
	return r, r.String() == text
}
