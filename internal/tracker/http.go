package tracker

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// List handles GET /watch/devices/trackers.
func (s *Service) List(c *gin.Context) error { return s.answer(c, s.list) }

// Snapshot handles GET /watch/devices/trackers/snapshot.
func (s *Service) Snapshot(c *gin.Context) error { return s.answer(c, s.snapshot) }

const (
	recordBytes = 3 << 10  // that a usual record of a page holds
	pageBytes   = 16 << 10 // of a page of a few records
	keptBuffer  = 1 << 20  // a larger buffer is not used again: while it waits no caller is counted with it
)

// answer reads a page, within the client's share, and writes it.
func (s *Service) answer(c *gin.Context, read func(context.Context, Client, query) (listing, error)) error {
	ctx := c.Request.Context()
	who, _ := ctx.Value(callerKey{}).(caller)
	httpapi.Known(c, who.client.ID)
	q, err := readQuery(c)
	if err != nil {
		return share(s.turns.calls, who.client.ID, func() error {
			return s.turns.in(ctx, who.client.ID, func() error { return cmp.Or(s.refusal(ctx, who), err) })
		})
	}
	q.usual = max(q.page.size*recordBytes, pageBytes)
	if err := httpapi.Hold(c, int64(q.usual)); err != nil {
		return err
	}
	q.hold = func(more int) error { return httpapi.HoldNow(c, int64(q.usual+more)) }
	var l listing
	err = share(s.turns.calls, who.client.ID, func() (err error) {
		l, err = s.asKnownNow(ctx, who, q, read)
		return err
	})
	if err != nil {
		return err
	}
	body := append(l.body, "]}"...)
	err = httpapi.Bytes(c, http.StatusOK, "application/json; charset=utf-8", body)
	if cap(body) <= keptBuffer {
		s.buffers.Put(&body)
	}
	return err
}

// asKnownNow reads a page. The client that is remembered may be out of date: the page is then read once more with what
// is known now.
func (s *Service) asKnownNow(ctx context.Context, who caller, q query,
	read func(context.Context, Client, query) (listing, error)) (listing, error) {
	l, err := read(ctx, who.client, q)
	if errors.Is(err, errClientChanged) || errs.KindOf(err) == errs.Forbidden {
		if who.client, err = s.authenticateAgain(ctx, who.key); err == nil {
			l, err = read(ctx, who.client, q)
		}
	}
	if errors.Is(err, errClientChanged) { // as the primary knows it, and not yet the replica
		err = errs.NewUnavailable("The client was changed a moment ago.", replicaRetry, err)
	}
	return l, err
}

// readQuery reads the parameters, with every violation.
func readQuery(c *gin.Context) (query, error) {
	if err := httpapi.Proper(c); err != nil {
		return query{}, err
	}
	return parseQuery(c.Request.URL.Query())
}
