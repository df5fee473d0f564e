package httpapi

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
)

const (
	strangerBody   = 16 << 10         // bytes of a body whose sender is not known
	smallBody      = 64 << 10         // bytes; smaller bodies never wait
	knownTotal     = 6 * maxBody      // bytes of known callers' larger bodies at a time: each costs several times its size
	unprovedTotal  = 2 * maxBody      // bytes of larger bodies whose signature is yet to be verified; they cost their size
	admitWait      = 10 * time.Second // then the answer is 503 with Retry-After
	admissionKey   = "httpapi.admission"
	tooManyAtATime = "The service has too many large requests at the moment."
)

// admission keeps large bodies from filling the memory, and callers from taking each other's share of it. There are two
// pools: a body that must be read before its sender is known never takes from those who are.
type admission struct{ known, unproved *shares }

// admitted is what one request is and holds.
type admitted struct {
	*admission
	caller string // "": not known
	peeked []byte // the body, when it was read for its signature
	read   bool   // the whole body
	from   *shares
	key    string
	weight int64
}

func newAdmission() *admission { return &admission{newShares(knownTotal), newShares(unprovedTotal)} }

// middleware releases what the request holds when it is answered.
func (a *admission) middleware(c *gin.Context) {
	held := &admitted{admission: a}
	c.Set(admissionKey, held)
	defer func() {
		if held.weight > 0 {
			held.from.release(held.key, held.weight)
		}
	}()
	c.Next()
}

// Known records who sent the request, once that is proved: from then on its body may be large, within the caller's
// share.
func Known(c *gin.Context, caller string) {
	admissionOf(c).caller = caller
}

// admissionOf returns what the request is and holds; without the middleware, a stranger that holds nothing.
func admissionOf(c *gin.Context) *admitted {
	if held, ok := c.Value(admissionKey).(*admitted); ok {
		return held
	}
	held := &admitted{admission: newAdmission()}
	c.Set(admissionKey, held)
	return held
}

// limit returns how many bytes the request's body may have.
func (a *admitted) limit() int64 {
	if a.caller == "" {
		return strangerBody
	}
	return maxBody
}

// acquire waits until there is memory for a body of the announced length, -1 for an unknown one; asked again, it
// changes nothing. errs.Unavailable: too many large bodies are being worked on.
func (a *admitted) acquire(ctx context.Context, from *shares, caller func() string, announced int64) error {
	if a.weight > 0 || announced >= 0 && announced <= smallBody || announced > maxBody {
		return nil
	}
	weight := announced
	if weight < 0 {
		weight = maxBody
	}
	waiting, cancel := context.WithTimeout(ctx, admitWait)
	defer cancel()
	key := caller()
	if err := from.acquire(waiting, key, weight); err != nil {
		if gone := ctx.Err(); gone != nil {
			return gone
		}
		return errs.NewUnavailable(tooManyAtATime, time.Second, err)
	}
	a.from, a.key, a.weight = from, key, weight
	return nil
}
