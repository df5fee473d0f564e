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

// recordBytes is what a record of a page holds.
const recordBytes = 3 << 10

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
	if err := httpapi.Hold(c, int64(q.page.size)*recordBytes); err != nil {
		return err
	}
	var l listing
	err = share(s.turns.calls, who.client.ID, func() (err error) {
		l, err = s.asKnownNow(ctx, who, q, read)
		return err
	})
	if err != nil {
		return err
	}
	body := append(l.body, "]}"...)
	httpapi.Bytes(c, http.StatusOK, "application/json; charset=utf-8", body)
	s.buffers.Put(&body)
	return nil
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
	values, err := httpapi.Query(c)
	if err != nil {
		return query{}, err
	}
	return parseQuery(values)
}
