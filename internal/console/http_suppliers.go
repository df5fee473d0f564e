package console

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/web"
)

// form returns a field of a posted form, without blanks around it.
func form(c *gin.Context, name string) string {
	return strings.TrimSpace(c.PostForm(name))
}

// sole returns the supplier that an action is about.
func (s *Service) sole(c *gin.Context) (supplierauth.Supplier, error) {
	ids := c.PostFormArray("id")
	if len(ids) != 1 {
		return supplierauth.Supplier{}, errs.New(errs.Invalid, "Choose one supplier.")
	}
	logctx.Note(c.Request.Context(), slog.Any("ids", ids))
	found, err := s.deps.Suppliers.SuppliersOf(c.Request.Context(), ids)
	if err == nil && len(found) == 0 {
		err = errs.New(errs.NotFound, "There is no such supplier.")
	}
	if err != nil {
		return supplierauth.Supplier{}, err
	}
	return found[0], nil
}

// done answers an action with what it came to, unless it failed.
func (s *Service) done(c *gin.Context, err error, text string, arguments ...any) error {
	if err == nil {
		s.cache.Forget()
		err = s.site.Answer(c, http.StatusOK, web.Outcome{Message: s.site.Text(c, text, arguments...)})
	}
	return err
}

// show answers an action with a part of a page that is shown this once.
func (s *Service) show(c *gin.Context, message, page, part string, data any) error {
	s.cache.Forget()
	return s.site.Show(c, message, page, part, data)
}

// PortalLink handles POST /console/suppliers/portal-link.
func (s *Service) PortalLink(c *gin.Context) error {
	supplier, err := s.sole(c)
	if err != nil {
		return err
	}
	address, expires, err := s.deps.PortalLink(c.Request.Context(), supplier.ID)
	if err != nil {
		return err
	}
	return s.show(c, s.site.Text(c, "This page shows the link once."), "supplier", "link",
		map[string]any{"Name": supplier.Name, "Address": address, "Expires": expires})
}

// secrets are what is shown once of a supplier; an empty one was not made.
type secrets struct{ ID, Name, APIKey, WebhookSecret string }

// CreateSupplier handles POST /console/suppliers/create; the rest is as the command has it.
func (s *Service) CreateSupplier(c *gin.Context) error {
	created, err := s.deps.Suppliers.CreateSupplier(c.Request.Context(), supplierauth.Supplier{
		Name: form(c, "name"), WebhookURL: form(c, "webhook_url"), AccessTTL: supplierauth.DefaultAccessTTL,
		RefreshTTL: supplierauth.DefaultRefreshTTL, Scopes: supplierauth.DefaultScopes(),
	})
	if err != nil {
		return err
	}
	return s.show(c, s.site.Text(c, "The supplier was created. This page shows its key and secret once."), "suppliers",
		"secrets", secrets{created.Supplier.ID, created.Supplier.Name, created.APIKey, created.WebhookSecret})
}

// RotateKey handles POST /console/suppliers/rotate-key.
func (s *Service) RotateKey(c *gin.Context) error {
	return s.rotate(c, "This page shows the new key once.", s.deps.Suppliers.RotateAPIKey,
		func(made *secrets) *string { return &made.APIKey })
}

// RotateSecret handles POST /console/suppliers/rotate-secret.
func (s *Service) RotateSecret(c *gin.Context) error {
	return s.rotate(c, "This page shows the new secret once.", s.deps.Suppliers.RotateWebhookSecret,
		func(made *secrets) *string { return &made.WebhookSecret })
}

func (s *Service) rotate(c *gin.Context, message string,
	rotate func(ctx context.Context, id string, overlap time.Duration) (string, error), to func(*secrets) *string) error {
	supplier, err := s.sole(c)
	if err != nil {
		return err
	}
	overlap, err := time.ParseDuration(form(c, "overlap"))
	if err != nil {
		return errs.InvalidInput("The overlap is not valid.", errs.At("/overlap", "must be a duration such as 24h"))
	}
	logctx.Note(c.Request.Context(), slog.Duration("overlap", overlap))
	made := secrets{ID: supplier.ID, Name: supplier.Name}
	if *to(&made), err = rotate(c.Request.Context(), supplier.ID, overlap); err != nil {
		return err
	}
	return s.show(c, s.site.Text(c, message), "suppliers", "secrets", made)
}

// SetConcurrency handles POST /console/suppliers/concurrency.
func (s *Service) SetConcurrency(c *gin.Context) error {
	supplier, err := s.sole(c)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(form(c, "receiver_concurrency"))
	if err != nil {
		return errs.InvalidInput("The supplier is not valid.", errs.At("/receiver_concurrency", "must be a whole number"))
	}
	logctx.Note(c.Request.Context(), slog.Int("receiver_concurrency", n))
	_, err = s.deps.Suppliers.UpdateSupplier(c.Request.Context(), supplier.ID,
		supplierauth.SupplierPatch{ReceiverConcurrency: &n})
	return s.done(c, err, "Saved. Its receiver takes at most %d calls at once.", n)
}
