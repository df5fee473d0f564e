package tracker

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// keyHeader carries a client's key.
const keyHeader = "svc-public-hub-key"

// caller is who asks, in the request's context.
type caller struct {
	client Client
	key    string
}

type callerKey struct{}

// ClientKey lets a request pass that carries the key of an active client. Errors: errs.Forbidden.
func (s *Service) ClientKey() gin.HandlerFunc {
	return httpapi.Handle(func(c *gin.Context) error {
		values := c.Request.Header.Values(keyHeader)
		if len(values) != 1 {
			return refusedKey()
		}
		ctx := c.Request.Context()
		client, err := s.authenticate(ctx, values[0])
		if err != nil {
			return err
		}
		ctx = logctx.With(context.WithValue(ctx, callerKey{}, caller{client, values[0]}),
			slog.String("tracker_client", client.ID))
		c.Request = c.Request.WithContext(ctx)
		return nil
	})
}

// List handles GET /watch/devices/trackers.
func (s *Service) List(c *gin.Context) error { return s.answer(c, s.list) }

// Snapshot handles GET /watch/devices/trackers/snapshot.
func (s *Service) Snapshot(c *gin.Context) error { return s.answer(c, s.snapshot) }

func (s *Service) answer(c *gin.Context, read func(context.Context, Client, query) (listing, error)) error {
	ctx := c.Request.Context()
	who, _ := ctx.Value(callerKey{}).(caller)
	q, err := readQuery(c)
	if err != nil {
		if refused := s.refusal(ctx, who); refused != nil {
			return refused
		}
		return err
	}
	l, err := read(ctx, who.client, q)
	// what was remembered of the client may be old
	if errors.Is(err, errClientChanged) || errs.KindOf(err) == errs.Forbidden {
		if who.client, err = s.authenticateAnew(ctx, who.key); err == nil {
			l, err = read(ctx, who.client, q)
		}
	}
	if errors.Is(err, errClientChanged) { // as the primary knows it, and not yet the replica
		err = errs.NewUnavailable("The client was changed a moment ago.", replicaRetry, err)
	}
	if err != nil {
		return err
	}
	body := append(l.body, "]}"...)
	httpapi.Bytes(c, http.StatusOK, "application/json; charset=utf-8", body)
	s.buffers.Put(&body)
	return nil
}

func readQuery(c *gin.Context) (query, error) {
	values, err := httpapi.Query(c)
	if err != nil {
		return query{}, err
	}
	return parseQuery(values)
}

// refusal returns why the caller may read nothing at all, which comes before what is wrong with the parameters; or nil.
func (s *Service) refusal(ctx context.Context, who caller) error {
	client, err := s.authenticateAnew(ctx, who.key)
	if err != nil {
		return err
	}
	if len(client.Views) == 0 {
		return noViews()
	}
	if _, err := s.lookUp(ctx, client.Views[0]); errors.Is(err, errNoView) {
		return noViews()
	}
	return nil
}
