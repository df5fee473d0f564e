package httpapi

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/sync/semaphore"

	"github.com/supplyhub/supplyhub/internal/errs"
)

const (
	smallBody  = 64 << 10         // bytes; smaller bodies never wait
	largeTotal = 4 * maxBody      // bytes of larger bodies that are worked on at a time: each costs several times its size
	admitWait  = 10 * time.Second // then the caller is told to come back
)

// admission keeps large bodies from filling the memory: whoever has one waits for its turn before it is read.
type admission struct{ large *semaphore.Weighted }

const admissionKey = "httpapi.admission"

// admitted is what one request holds.
type admitted struct {
	*admission
	weight int64
}

func newAdmission() *admission { return &admission{semaphore.NewWeighted(largeTotal)} }

// middleware gives back what the request holds when it is answered.
func (a *admission) middleware(c *gin.Context) {
	held := &admitted{admission: a}
	c.Set(admissionKey, held)
	defer func() {
		if held.weight > 0 {
			a.large.Release(held.weight)
		}
	}()
	c.Next()
}

// Admit waits until there is memory for the request's body; asked again, it changes nothing. errs.Unavailable: too many
// large bodies are being worked on. ReadJSON calls it; who reads a body otherwise calls it first.
func Admit(c *gin.Context) error {
	held, ok := c.Value(admissionKey).(*admitted)
	announced := c.Request.ContentLength
	if !ok || held.weight > 0 || announced >= 0 && announced <= smallBody || announced > maxBody {
		return nil
	}
	weight := announced
	if weight < 0 {
		weight = maxBody
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), admitWait)
	defer cancel()
	if err := held.large.Acquire(ctx, weight); err != nil {
		if gone := c.Request.Context().Err(); gone != nil {
			return gone
		}
		return errs.Away("The service has too many large requests at the moment.", time.Second, err)
	}
	held.weight = weight
	return nil
}
