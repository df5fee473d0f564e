package tracker

import (
	"context"
	"log/slog"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// Who may read. The key is looked up once and remembered; the page's own statement makes sure that the client has not
// changed since (guard), so a remembered one costs no query of its own. When that fails, or a view is gone, the key
// is looked up again and the page read once more. The two texts of a 403 are the contract's.

// keyHeader carries a client's key.
const keyHeader = "svc-public-hub-key"

// caller is who asks, in the request's context.
type caller struct {
	client Client
	key    string
}

// callerKey is the context key of the caller.
type callerKey struct{}

// ClientKey lets a request pass that carries the key of an active client. Errors: errs.Forbidden.
func (s *Service) ClientKey() gin.HandlerFunc {
	return httpapi.Handle(func(c *gin.Context) error {
		c.Header("Cache-Control", "no-store") // unlike an Authorization header, a key of our own keeps no cache from storing
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

// authenticate returns the active client whose key it is, remembered or looked up; the reader of a remembered one makes
// sure that it has not changed. errs.Forbidden: no client has the key.
func (s *Service) authenticate(ctx context.Context, key string) (Client, error) {
	known, remembered := s.clients.Get(clientKeys().Hash(key))
	if remembered && (known.keyEnds.IsZero() || s.deps.Now().Before(known.keyEnds)) {
		return known, nil
	}
	return s.authenticateAgain(ctx, key)
}

// authenticateAgain looks the key up. errs.Forbidden: no client has it.
func (s *Service) authenticateAgain(ctx context.Context, key string) (Client, error) {
	if !clientKeys().Valid(key) {
		return Client{}, refusedKey()
	}
	hash := clientKeys().Hash(key)
	known, found, err := s.store.byKey(ctx, hash, s.deps.Now())
	if err != nil {
		return Client{}, err
	}
	if !found || !known.Active {
		s.clients.Remove(hash)
		return Client{}, refusedKey()
	}
	s.clients.Add(hash, known)
	return known, nil
}

// refusedKey answers a key that no active client has.
func refusedKey() error { return errs.New(errs.Forbidden, "The API key is missing or invalid.") }

// noViews answers a client without a view, or whose first view is gone.
func noViews() error { return errs.New(errs.Forbidden, "No views available for this client") }

// refusal returns why the caller may read nothing at all, which comes before what is wrong with the parameters; or nil.
func (s *Service) refusal(ctx context.Context, who caller) error {
	client, err := s.authenticateAgain(ctx, who.key)
	if err != nil {
		return err
	}
	if len(client.Views) == 0 {
		return noViews()
	}
	if err := s.probe(ctx, client.Views[0]); gone(err) {
		return noViews()
	}
	return nil
}
