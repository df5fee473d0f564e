package tracker

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/supplyhub/supplyhub/internal/apikey"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// Clients are managed by the operator alone. A client has a name, keys (one, or two while one is rotated) and views,
// the first of which is read. Each change raises the client's version: the next page's own statement finds that what
// other processes remember is old.

const (
	clientIDLength = 16
	longestName    = 255
	longestView    = 63 // bytes of an identifier
	mostViews      = 32
)

// Client reads the listings with a key of its own.
type Client struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Views     []string  `json:"views"` // granted, the first is read; never nil
	Active    bool      `json:"active"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	number    int64
	version   int64     // counts its changes
	keyEnds   time.Time // of the key that it was found by; zero for never
}

// CreatedClient is a new client with its key, which is shown this once.
type CreatedClient struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	APIKey string `json:"api_key"`
}

// CreateClient makes an active client. The views need not exist yet; one that does must have a record's columns.
// Errors: errs.Invalid with every violation.
func (s *Service) CreateClient(ctx context.Context, name string, views []string) (CreatedClient, error) {
	violations, err := s.checkViews(ctx, views)
	if err != nil {
		return CreatedClient{}, err
	}
	if strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > longestName || hasControl(name) {
		violations = append([]errs.Violation{
			errs.At("/name", fmt.Sprintf("must be 1 to %d printable characters", longestName))}, violations...)
	}
	if len(violations) > 0 {
		return CreatedClient{}, errs.InvalidInput("The client is not valid.", violations...)
	}
	created := CreatedClient{ID: "trk_" + strings.ToLower(rand.Text()[:clientIDLength]), Name: name}
	logctx.Note(ctx, slog.String("tracker_client", created.ID))
	err = s.deps.DB.InTx(ctx, "create a tracker client", func(ctx context.Context) error {
		number, err := s.store.insertClient(ctx, created.ID, name, views, s.deps.Now())
		if err != nil {
			return err
		}
		created.APIKey, err = clientKeys().Add(ctx, keysOf{s.store, number}, s.deps.Now())
		return err
	})
	if err != nil {
		return CreatedClient{}, fmt.Errorf("create tracker client: %w", err)
	}
	return created, nil
}

// ListClients returns all clients, oldest first; never nil.
func (s *Service) ListClients(ctx context.Context) ([]Client, error) { return s.store.list(ctx) }

// SetViews grants exactly these views; the first is read. Errors: errs.Invalid with every violation, errs.NotFound.
func (s *Service) SetViews(ctx context.Context, id string, views []string) (Client, error) {
	violations, err := s.checkViews(ctx, views)
	if err != nil {
		return Client{}, err
	}
	if len(violations) > 0 {
		return Client{}, errs.InvalidInput("The views are not valid.", violations...)
	}
	return s.change(ctx, "set views of tracker client", id, func(_ context.Context, c *Client) error {
		c.Views = views
		return nil
	})
}

// RotateKey makes a new key; the former ones work for the overlap, from 0 to 90 days. Errors: errs.Invalid,
// errs.NotFound.
func (s *Service) RotateKey(ctx context.Context, id string, overlap time.Duration) (string, error) {
	if err := apikey.CheckOverlap(overlap); err != nil {
		return "", err
	}
	var key string
	_, err := s.change(ctx, "rotate key of tracker client", id, func(ctx context.Context, c *Client) (err error) {
		key, err = clientKeys().Rotate(ctx, keysOf{s.store, c.number}, s.deps.Now(), overlap)
		return err
	})
	if err != nil {
		return "", err
	}
	return key, nil
}

// SetActive refuses the client's keys, or lets them in again. Errors: errs.NotFound.
func (s *Service) SetActive(ctx context.Context, id string, active bool) (Client, error) {
	return s.change(ctx, "activate or deactivate tracker client", id, func(_ context.Context, c *Client) error {
		c.Active = active
		return nil
	})
}

// change runs fn and stores the client in one transaction, one change of a client at a time.
func (s *Service) change(ctx context.Context, what, id string, fn func(context.Context, *Client) error) (
	Client, error) {
	var changed Client
	err := s.deps.DB.InTx(ctx, "change a tracker client", func(ctx context.Context) (err error) {
		if changed, err = s.store.lockClient(ctx, id); err != nil {
			return err
		}
		changed.UpdatedAt = s.deps.Now().UTC().Truncate(time.Microsecond)
		if err := fn(ctx, &changed); err != nil {
			return err
		}
		return s.store.saveClient(ctx, changed)
	})
	return changed, errs.Doing(what, err)
}

// clientKeys returns the form of the clients' keys.
func clientKeys() apikey.Format {
	return apikey.Format{Prefix: "hub_ck_", Domain: "hub/trackerkey/1\x00"}
}

// validateViews returns what is wrong with the form of the granted views. Whether they are there, checkViews says.
func validateViews(views []string) []errs.Violation {
	var violations []errs.Violation
	if len(views) > mostViews {
		violations = append(violations, errs.At("/views", fmt.Sprintf("must be at most %d", mostViews)))
	}
	for i, view := range views {
		at := fmt.Sprintf("/views/%d", i)
		switch {
		case view == "" || hasControl(view) ||
			slices.ContainsFunc(identifiers(view), func(part string) bool { return part == "" }):
			violations = append(violations, errs.At(at, "must be the name of a view, or schema.view"))
		case slices.ContainsFunc(identifiers(view), func(part string) bool { return len(part) > longestView }):
			violations = append(violations, errs.At(at, fmt.Sprintf("must have at most %d bytes", longestView)))
		case inCatalogue(view):
			violations = append(violations, errs.At(at, "belongs to the database's own catalogue"))
		case slices.Contains(views[:i], view):
			violations = append(violations, errs.At(at, "is given twice"))
		}
	}
	return violations
}

// inCatalogue reports whether the name is one of the engines' own relations.
func inCatalogue(view string) bool {
	parts := identifiers(view)
	if len(parts) == 2 && parts[0] == "information_schema" {
		return true
	}
	return strings.HasPrefix(parts[0], "pg_") || strings.HasPrefix(strings.ToLower(parts[0]), "sqlite_")
}

// identifiers returns the parts of a granted name: [view] or [schema, view].
func identifiers(view string) []string { return strings.SplitN(view, ".", 2) }

// hasControl reports whether a text has a character that does not print.
func hasControl(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl)
}
