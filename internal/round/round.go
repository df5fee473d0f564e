// Package round has what travels between the packages for one round of an accepted request: its name, its event on the
// way to the sender, the webhook-ids of that event, and the messages that name rounds. It imports no package of
// internal/.
package round

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

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

// Outgoing is the event of a round, to be stored and delivered. The same round twice is one event: work that the queue
// brings twice, or that two workers do, stores one.
type Outgoing struct {
	Round       Round
	TraceID     string // X-Request-Id of the call that caused it
	TraceParent string // the span of that call; empty: it is not traced
	Event       webhook.Event
	Body        []byte // the event as JSON; nil: the outbox encodes it
}

// Partition is a range of uids whose events are stored together, and dropped together.
type Partition struct {
	Name           string
	First, End     int64     // uids; End is not of it
	Opened, Closed time.Time // when new requests began and ceased to belong to it; zero: they always did, they still do
	Kept           string    // why retention has not dropped it although all of it is old
}

// Kind is which of an event's deliveries a webhook-id names.
type Kind byte

// The kinds of deliveries.
const (
	OwnEndpoint Kind = 0 // to the service's own endpoint
	Receiver    Kind = 1 // to the supplier's receiver
)

// Event is what the webhook-ids of a stored event follow from; all of it is in the event's row. The nonce is random: a
// uid that is given out again, after a restore or by another installation, makes other ids.
type Event struct {
	UID   int64
	At    int64 // when it was stored, in Unix microseconds
	Nonce int64 // nonceBits of it
}

// NewEvent returns the event of a round of the request that is stored now.
func NewEvent(uid int64, now time.Time) Event {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	return Event{UID: uid, At: now.UnixMicro(), Nonce: int64(binary.BigEndian.Uint64(random[:]) >> (64 - nonceBits))}
}

// A webhook-id is idPrefix, headDigits of the uid's day and the time, and tailDigits of the nonce and the kind. The day
// is that of the partition that the uid belongs to; within it ids ascend with the time, so that an index grows at its
// end.
const (
	idPrefix   = "msg_"
	dayShift   = 36   // of uids, as in the schema's webhook_border
	timeBits   = 40   // in timeUnit, until the year 2109
	timeUnit   = 4000 // microseconds
	headDigits = 10
	nonceBits  = 52
	tailDigits = 9
)

// digits are in the order in which bytes compare.
const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// WebhookID returns the id of the event's delivery of that kind.
func (e Event) WebhookID(kind Kind) string {
	return idPrefix + inDigits(head(e.UID, e.At/timeUnit), headDigits) +
		inDigits(uint64(e.Nonce)<<1|uint64(kind), tailDigits)
}

// Border returns what is before the webhook-ids of the uid's day and behind those of the days before.
func Border(uid int64) string { return idPrefix + inDigits(head(uid, 0), headDigits) }

// IsWebhookID reports whether a text has the form of a delivery's id.
func IsWebhookID(text string) bool {
	rest, found := strings.CutPrefix(text, idPrefix)
	return found && len(rest) == headDigits+tailDigits && strings.Trim(rest, digits) == ""
}

func head(uid, at int64) uint64 {
	return uint64(uid>>dayShift)<<timeBits | uint64(at)&(1<<timeBits-1)
}

// inDigits returns the last n digits of a number.
func inDigits(number uint64, n int) string {
	text := make([]byte, n)
	for i := n - 1; i >= 0; i-- {
		text[i] = digits[number%uint64(len(digits))]
		number /= uint64(len(digits))
	}
	return string(text)
}

// String returns the round as queued work names it: supplier/request/uid/number.
func (r Round) String() string {
	text := make([]byte, 0, len(r.SupplierID)+48)
	text = append(append(text, r.SupplierID...), '/')
	text = append(strconv.AppendInt(text, r.RequestID, 10), '/')
	text = append(strconv.AppendInt(text, r.UID, 10), '/')
	return string(strconv.AppendInt(text, r.Number, 10))
}

// parse inverts String; ok is false for any other text.
func parse(text string) (r Round, ok bool) {
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
