package supplierauth

import (
	"context"
	"fmt"
	"strings"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// WebhookSecrets returns the secrets that sign now, the newest first; never nil.
func (s *Service) WebhookSecrets(ctx context.Context, supplierID string) ([]caller.SecretValidity, error) {
	secrets, err := s.store.secrets(ctx, supplierID, s.now())
	if err != nil {
		return nil, fmt.Errorf("list webhook secrets: %w", err)
	}
	return secrets, nil
}

// SetWebhookURL stores a supplier's own choice of its receiver; empty removes it. Errors: errs.Invalid, errs.NotFound.
func (s *Service) SetWebhookURL(ctx context.Context, supplierID, url string) error {
	if fault := s.ownURLFault(url); fault != "" {
		return errs.InvalidInput("The receiver's address is not valid.", errs.At("/url", fault))
	}
	var found bool
	err := s.store.db.InTx(ctx, "set a webhook address", func(ctx context.Context) (err error) {
		if found, err = s.store.setWebhookURL(ctx, supplierID, storedURL(url), s.now()); err != nil {
			return err
		}
		return s.callable(ctx, supplierID)
	})
	if err != nil {
		return fmt.Errorf("set webhook address: %w", err)
	}
	if !found {
		return errs.New(errs.NotFound, "There is no supplier with this id.")
	}
	logctx.Note(ctx, hostOf(url))
	return nil
}

// ownURLFault is stricter than the operator's rule: a supplier's own address is https, unless private ones are allowed.
// It names no setting, which suppliers cannot change.
func (s *Service) ownURLFault(url string) string {
	if fault := webhookURLFault(url, s.allowPrivate); fault != "" || url == "" {
		return strings.TrimSuffix(fault, unlessAllowed)
	}
	if scheme, _, _ := strings.Cut(url, ":"); !s.allowPrivate && !strings.EqualFold(scheme, "https") {
		return "must start with https://"
	}
	return ""
}
