package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// The memory that a caller makes this process hold is counted where it is held, against the caller's share, in one
// ledger:
//
//   - a connection, from Accept until it is closed, against its address. Its bytes are enough for the headers, and for
//     a body and an answer of the usual size: most requests ask for no more. A proxy's connections are one address's:
//     their requests are counted against the address of who called the proxy.
//   - a larger body, from before its first byte until the request is answered, with what decoding it costs.
//   - a larger answer: a part of a list, a page or a record from before it is read until it is written.
//     What a view of the tracker gives is counted while it grows.
//
// Who gets no memory waits (a connection does not), then the answer is 503 with Retry-After. Callers that are known and
// strangers have an account each, so that strangers never take from those who are known.

const (
	connectionBytes = 32 << 10         // that a connection holds, with as many headers as it may send
	usualBytes      = 16 << 10         // of these are for its request's body and answer
	textTimes       = 3                // what a stored text costs for each of its bytes, until it is encoded
	copiedBytes     = 32 << 10         // that net/http holds of an answer that it copies
	holdWait        = 10 * time.Second // then the answer is 503 with Retry-After
	bodyTimes       = 5                // what a body costs for each of its bytes, while it is read and decoded …
	objectBytes     = 256              // … unless its objects cost more
	heldKey         = "httpapi.held"
	tooMuchHeld     = "The service has no memory for this request at the moment."
)

// Ledger is the memory that callers make this process hold.
type Ledger struct {
	known, strangers *Shares
	proxied          *Shares // requests at once, as many as one address has connections
}

// NewLedger returns a ledger with so many bytes for callers that are known, and for strangers.
func NewLedger(known, strangers int64) *Ledger {
	return &Ledger{NewShares(known), NewShares(strangers), NewShares(strangers / connectionBytes / 2)}
}

// ample is what the accounts of an engine have that was given no ledger.
const ample = 1 << 30

// bodyCost returns what decoding a body costs: an object of two bytes becomes a struct.
func bodyCost(body []byte) int64 {
	n := int64(len(body))
	return max(bodyTimes*n, n+objectBytes*int64(bytes.Count(body, []byte("{"))))
}

// held is what one request is and holds, beyond what its connection is counted with.
type held struct {
	ledger  *Ledger
	caller  string // "": not known
	peeked  []byte // the body, when it was read for its signature
	read    bool   // the whole body, or as much of it as ever will be
	late    bool   // the body did not come in time: net/http has ended the context, though the caller is still there
	account *Shares
	key     string
	size    int64
}

// middleware releases what the request holds when it is answered.
func (l *Ledger) middleware(c *gin.Context) {
	h := &held{ledger: l}
	c.Set(heldKey, h)
	defer h.giveBack(0)
	if c.ClientIP() != c.RemoteIP() {
		client := clientNetwork(c)
		if !l.proxied.Take(client, 1) {
			c.Header("Connection", "close")
			_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Unix(1, 0)) // it waits for no body
			RenderProblem(c, errs.NewUnavailable(tooMuchHeld, time.Second, nil))
			c.Abort()
			return
		}
		defer func() { afterBody(c, h, func() { l.proxied.Release(client, 1) }) }()
	}
	c.Next()
}

// afterBody calls release when the request's body has come: net/http waits for the rest of one that was not read.
func afterBody(c *gin.Context, h *held, release func()) {
	w, watched := c.Request.Context().Value(wireKey{}).(*wire)
	if !watched || h.read || c.Request.ContentLength == 0 {
		release()
		return
	}
	w.owed.Store(&release)
}

// clientNetwork returns the network of who sent the request.
func clientNetwork(c *gin.Context) string {
	address, _ := netip.ParseAddr(c.ClientIP())
	return network(address)
}

// Known records who sent the request, once that is proved: from then on its body may be large, and what it holds is
// counted against the caller.
func Known(c *gin.Context, caller string) { heldBy(c).caller = caller }

// heldBy returns what the request is and holds; without the middleware, a stranger that holds nothing.
func heldBy(c *gin.Context) *held {
	if h, ok := c.Value(heldKey).(*held); ok {
		return h
	}
	h := &held{ledger: NewLedger(ample, ample)}
	c.Set(heldKey, h)
	return h
}

// limit returns how many bytes the request's body may have.
func (h *held) limit() int64 {
	if h.caller == "" {
		return strangerBody
	}
	return maxBody
}

// HoldText is Hold for so many bytes of stored text, which are to be read and encoded.
func HoldText(c *gin.Context, size int64) error { return Hold(c, textTimes*size) }

// Hold makes the request hold so many bytes, whatever it held before: it waits for more, and gives back what is too
// much. errs.Unavailable: there were none in time.
func Hold(c *gin.Context, size int64) error { return heldBy(c).hold(c, size) }

func (h *held) hold(c *gin.Context, size int64) error {
	if h.take(c, size) {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), holdWait)
	defer cancel()
	more := h.wanted(size) - h.size
	if err := h.account.Wait(ctx, h.key, more); err != nil {
		if gone := c.Request.Context().Err(); gone != nil {
			return gone
		}
		return errs.NewUnavailable(tooMuchHeld, time.Second, err)
	}
	h.size += more
	return nil
}

// ErrTooLarge says that no caller can ever have so much memory.
var ErrTooLarge = errors.New("it takes more memory than one caller can have")

// HoldNow is Hold for what grows while it is read: it does not wait, as the reader would wait with its connection.
// Errors: errs.Unavailable, ErrTooLarge.
func HoldNow(c *gin.Context, size int64) error {
	h := heldBy(c)
	if !h.take(c, size) {
		return errs.NewUnavailable(tooMuchHeld, time.Second, nil)
	}
	if size > usualBytes && size > h.size {
		return ErrTooLarge
	}
	return nil
}

// take reports whether the request holds so many bytes now: it is hold that does not wait.
func (h *held) take(c *gin.Context, size int64) bool {
	if size <= usualBytes && h.size == 0 {
		return true
	}
	if h.account == nil {
		if h.account, h.key = h.ledger.known, h.caller; h.key == "" {
			h.account, h.key = h.ledger.strangers, clientNetwork(c)
		}
	}
	wanted := h.wanted(size)
	if h.giveBack(wanted); wanted == h.size {
		return true
	}
	if !h.account.Take(h.key, wanted-h.size) {
		return false
	}
	h.size = wanted
	return true
}

// wanted returns how many bytes to ask for: not those that the connection has, and at most what one caller can ever
// have.
func (h *held) wanted(size int64) int64 {
	if size <= usualBytes {
		return 0
	}
	return min(size, h.account.total/2)
}

// giveBack releases all that is held beyond so many bytes.
func (h *held) giveBack(size int64) {
	if h.size > size {
		h.account.Release(h.key, h.size-size)
		h.size = size
	}
}

// network returns whom an address belongs to: who has one of IPv6 has all of its network.
func network(address netip.Addr) string {
	if address = address.Unmap(); address.Is6() {
		if prefix, err := address.WithZone("").Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return address.String()
}

// ReadOne reads a record that may be large, whose size is known when it is found: read asks whether so many bytes of
// text fit before it makes more of what it found, and gives up when they do not. It is then called again once there is
// memory. errs.Unavailable: there was none in time.
func ReadOne[T any](c *gin.Context, read func(fits func(size int64) bool) (T, error)) (T, error) {
	h, missing := heldBy(c), int64(0)
	found, err := read(func(size int64) bool {
		if size *= textTimes; !h.take(c, size) {
			missing = size
		}
		return missing == 0
	})
	if missing == 0 {
		return found, err
	}
	if err := h.hold(c, missing); err != nil {
		return found, err
	}
	return read(func(int64) bool { return true }) // little has come to it meanwhile
}
