package supplierauth

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/apikey"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// The operator's changes of suppliers. Each one locks the supplier's row, so that two changes do not undo each
// other. A deactivation ends all sessions in batches, as there may be many, and a supplier that is activated again
// meanwhile keeps the rest. Secrets are returned once, when they are made.

const (
	supplierIDLength = 16 // letters and digits after sup_: 80 random bits
	maxSecrets       = 5  // webhook secrets that sign at a time: receivers take headers of 8 KiB, a signature has 48 bytes
)

// Created is a new supplier with its credentials, which are shown this once.
type Created struct {
	Supplier      Supplier
	APIKey        string
	WebhookSecret string
}

// CreateSupplier makes an active supplier with the name, receiver, lifetimes and scopes of the given one. Errors:
// errs.Invalid with every violation.
func (s *Service) CreateSupplier(ctx context.Context, given Supplier) (Created, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	supplier := Supplier{ID: "sup_" + strings.ToLower(rand.Text()[:supplierIDLength]), Active: true, CreatedAt: now,
		UpdatedAt: now}
	if err := whole(given).apply(&supplier, s.deps.AllowPrivateWebhooks); err != nil {
		return Created{}, err
	}
	created := Created{Supplier: supplier}
	err := s.store.db.InTx(ctx, "create a supplier", func(ctx context.Context) (err error) {
		if err := s.store.insertSupplier(ctx, supplier); err != nil {
			return err
		}
		if created.APIKey, err = supplierKeys().Add(ctx, keysOf{s.store, supplier.ID}, now); err != nil {
			return err
		}
		created.WebhookSecret, err = s.addSecret(ctx, supplier.ID, now)
		return err
	})
	if err != nil {
		return Created{}, fmt.Errorf("create supplier: %w", err)
	}
	logctx.Note(ctx, slog.String("supplier_id", supplier.ID), hostOf(supplier.WebhookURL))
	return created, nil
}

// ListSuppliers returns all suppliers, oldest first; never nil.
func (s *Service) ListSuppliers(ctx context.Context) ([]Supplier, error) {
	suppliers, err := s.store.suppliers(ctx, `ORDER BY created_at, id`)
	return suppliers, errs.Doing("list suppliers", err)
}

// UpdateSupplier changes what the patch names; tokens issued from now on follow it.
// Errors: errs.Invalid with every violation, errs.NotFound.
func (s *Service) UpdateSupplier(ctx context.Context, id string, patch SupplierPatch) (Supplier, error) {
	var supplier Supplier
	if err := patch.apply(&supplier, s.deps.AllowPrivateWebhooks); err != nil {
		return Supplier{}, err
	}
	err := s.change(ctx, "update supplier", id, func(ctx context.Context, changed *Supplier, _ time.Time) error {
		before := changed.WebhookURL
		if err := patch.apply(changed, s.deps.AllowPrivateWebhooks); err != nil {
			return err
		}
		supplier = *changed
		if supplier.WebhookURL != before {
			if err := s.deps.Moved(ctx, id, supplier.WebhookURL); err != nil {
				return err
			}
		}
		return s.deps.Callable(ctx, id)
	})
	if err != nil {
		return Supplier{}, err
	}
	if patch.WebhookURL != nil {
		logctx.Note(ctx, hostOf(supplier.WebhookURL))
	}
	return supplier, nil
}

// RotateAPIKey makes a new API key. The former ones work for the overlap, from 0 to 90 days, and sessions made with
// them go on. Errors: errs.Invalid, errs.NotFound.
func (s *Service) RotateAPIKey(ctx context.Context, id string, overlap time.Duration) (key string, err error) {
	if err := apikey.CheckOverlap(overlap); err != nil {
		return "", err
	}
	err = s.change(ctx, "rotate API key", id, func(ctx context.Context, _ *Supplier, now time.Time) (err error) {
		key, err = supplierKeys().Rotate(ctx, keysOf{s.store, id}, now, overlap)
		return err
	})
	return key, err
}

// RotateWebhookSecret makes a new webhook secret. The current one signs too for the overlap, from 0 to 90 days,
// one that was rotated before until its own end, at most maxSecrets at a time; without an overlap all end now.
// Errors: errs.Invalid, errs.NotFound.
func (s *Service) RotateWebhookSecret(ctx context.Context, id string, overlap time.Duration) (
	secret string, err error) {
	if err := apikey.CheckOverlap(overlap); err != nil {
		return "", err
	}
	err = s.store.db.InTx(ctx, "rotate a webhook secret", func(ctx context.Context) (err error) {
		now := s.now().UTC().Truncate(time.Microsecond)
		if err := s.store.touchSupplier(ctx, id, now); err != nil { // one rotation at a time
			return err
		}
		if err := s.store.expireSecrets(ctx, id, now.Add(overlap), overlap == 0); err != nil {
			return err
		}
		if err := s.store.dropSecrets(ctx, id, maxSecrets-1, now); err != nil {
			return err
		}
		secret, err = s.addSecret(ctx, id, now)
		return err
	})
	return secret, errs.Doing("rotate webhook secret", err)
}

// Deactivate refuses the supplier's API keys and ends all its sessions. Access tokens that are out live until their
// expiry. Step 1 commits that it is inactive: from then on no key, refresh token or portal link of it is
// taken. Step 2 ends the sessions by batches, however many there are. A crash between leaves them to Activate. Errors:
// errs.NotFound.
func (s *Service) Deactivate(ctx context.Context, id string) error {
	if err := s.setActive(ctx, "deactivate supplier", id, false); err != nil {
		return err
	}
	return s.endInactive(ctx, id)
}

// endInactive ends what sessions an inactive supplier still has.
func (s *Service) endInactive(ctx context.Context, id string) error {
	n, err := s.store.endSessions(ctx, id, true)
	s.ended.WithLabelValues(endedByDeactivation).Add(float64(n))
	return errs.Doing("end the sessions of a deactivated supplier", err)
}

// RevokeSessions ends all sessions of the supplier, those in the portal included; its API keys make new ones. It
// returns how many families of refresh tokens ended. Errors: errs.NotFound.
func (s *Service) RevokeSessions(ctx context.Context, id string) (ended int64, err error) {
	if _, err = s.store.holdSupplier(ctx, id); err == nil {
		ended, err = s.store.endSessions(ctx, id, false)
	}
	s.ended.WithLabelValues(endedByRevoke).Add(float64(ended))
	logctx.Note(ctx, slog.Int64("count", ended))
	return ended, errs.Doing("revoke sessions", err)
}

// Activate lets a deactivated supplier's API keys in again, after the rest of its sessions has ended: none comes back.
// Errors: errs.NotFound.
func (s *Service) Activate(ctx context.Context, id string) error {
	active, err := s.store.holdSupplier(ctx, id)
	if err != nil {
		return fmt.Errorf("activate supplier: %w", err)
	}
	if !active {
		if err := s.endInactive(ctx, id); err != nil {
			return err
		}
	}
	return s.setActive(ctx, "activate supplier", id, true)
}

// setActive writes no other column.
func (s *Service) setActive(ctx context.Context, what, id string, active bool) error {
	err := s.store.db.InTx(ctx, "switch a supplier", func(ctx context.Context) error {
		if _, err := s.store.lockSupplier(ctx, id); err != nil {
			return err
		}
		if err := s.store.saveActive(ctx, id, active, s.now()); err != nil || !active {
			return err
		}
		return s.deps.Callable(ctx, id)
	})
	return errs.Doing(what, err)
}

// change runs fn and stores the supplier in one transaction, one change of a supplier at a time.
func (s *Service) change(ctx context.Context, what, id string,
	fn func(context.Context, *Supplier, time.Time) error) error {
	err := s.store.db.InTx(ctx, "change a supplier", func(ctx context.Context) error {
		supplier, err := s.store.lockSupplier(ctx, id)
		if err != nil {
			return err
		}
		now := s.now().UTC().Truncate(time.Microsecond)
		supplier.UpdatedAt = now
		if err := fn(ctx, &supplier, now); err != nil {
			return err
		}
		return s.store.saveSupplier(ctx, supplier)
	})
	return errs.Doing(what, err)
}

// addSecret makes a webhook secret, stores it sealed and returns it: it can be read nowhere later.
func (s *Service) addSecret(ctx context.Context, supplierID string, now time.Time) (string, error) {
	// Sealed by a key that was given by mistake, it could not be read with the right one.
	if none, err := s.openSome(ctx); none {
		return "", errs.Wrap(errs.Unavailable, "No secret can be stored at the moment.", err)
	}
	id, secret := "whs_"+strings.ToLower(rand.Text()), webhook.NewSecret().Text()
	sealed, err := s.sealer.seal(secret, id)
	if err != nil {
		return "", err
	}
	return secret, s.store.insertSecret(ctx, id, supplierID, sealed, now)
}

// hostOf returns what is logged of a receiver's address: the rest of it may hold a secret.
func hostOf(address string) slog.Attr {
	if u, err := url.Parse(address); err == nil {
		return slog.String("receiver_host", u.Host)
	}
	return slog.String("receiver_host", "")
}

// SupplierPage returns the suppliers behind a place in the list of all, oldest first. next goes on from there; empty:
// that was all.
func (s *Service) SupplierPage(ctx context.Context, after string, limit int) (page []Supplier, next string, err error) {
	var created int64
	var id string
	if n, err := fmt.Sscanf(strings.Replace(after, "~", " ", 1), "%d %s", &created, &id); err != nil || n != 2 {
		created, id = 0, ""
	}
	page, err = s.store.suppliers(ctx, `WHERE (created_at, id) > ($1, $2) ORDER BY created_at, id LIMIT $3`, created, id,
		limit)
	if err != nil || len(page) < limit {
		return page, "", errs.Doing("list suppliers", err)
	}
	last := page[limit-1]
	return page, fmt.Sprintf("%d~%s", last.CreatedAt.UnixMicro(), last.ID), nil
}

// SuppliersOf returns the suppliers of the ids, in no order; unknown ones are absent.
func (s *Service) SuppliersOf(ctx context.Context, ids []string) ([]Supplier, error) {
	found, err := s.store.suppliers(ctx, `WHERE `+s.store.db.AnyOf("id", 1), s.store.db.Values(ids))
	return found, errs.Doing("read suppliers", err)
}

// Names returns the names of the given suppliers, by id; unknown ones are absent.
func (s *Service) Names(ctx context.Context, ids []string) (map[string]string, error) {
	found, err := s.SuppliersOf(ctx, ids)
	return lists.Pairs(found, func(s Supplier) (id, name string) { return s.ID, s.Name }), err
}

// SearchSuppliers returns at most limit suppliers whose id is the text, or whose name contains it in upper or lower
// case.
func (s *Service) SearchSuppliers(ctx context.Context, text string, limit int) ([]Supplier, error) {
	text = strings.ToLower(text)
	all, err := s.ListSuppliers(ctx)
	found := slices.DeleteFunc(all, func(one Supplier) bool {
		return one.ID != text && !strings.Contains(strings.ToLower(one.Name), text)
	})
	return found[:min(len(found), limit)], err
}
