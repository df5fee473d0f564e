package supplierauth_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

const portalLinkTTL = 5 * time.Minute // how long a link is good

// portalLink is the token of a new link.
func (r *replica) portalLink(supplierID string) string {
	r.tb.Helper()
	token, expires, err := r.service.NewPortalLink(r.tb.Context(), supplierID, true)
	if err != nil || expires.Sub(r.clock.now()) != portalLinkTTL {
		r.tb.Fatalf("link until %s: %v", expires, err)
	}
	return token
}

// openPortal is the token of a new session.
func (r *replica) openPortal(link, former string) string {
	r.tb.Helper()
	session, err := r.service.OpenPortal(r.tb.Context(), link, former)
	if err != nil || !session.Secure || session.Token == "" || session.Token == former || session.Token == link {
		r.tb.Fatalf("open portal: %v", err)
	}
	return session.Token
}

// signedIn reports whether the token is a live session's, of this supplier.
func (r *replica) signedIn(token, supplierID string) bool {
	r.tb.Helper()
	p, err := r.service.PortalPrincipal(r.tb.Context(), token)
	if err != nil && errs.KindOf(err) != errs.Unauthenticated {
		r.tb.Fatal(err)
	}
	return err == nil && p.SupplierID == supplierID && p.SupplierName == "Acme" && p.Has(caller.ScopeWebhooks)
}

func (r *replica) refusesLink(link string) {
	r.tb.Helper()
	if _, err := r.service.OpenPortal(r.tb.Context(), link, ""); errs.KindOf(err) != errs.Unauthenticated {
		r.tb.Fatalf("the link: %v", err)
	}
}

func TestPortal_a_link_opens_one_session_however_many_ask_at_once_on_any_replica(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		a, b := twin(t, db, newClock())
		supplier := a.supplier(nil).Supplier
		for range 20 {
			link := a.portalLink(supplier.ID)
			var group sync.WaitGroup
			var opened atomic.Int64
			for i := range 12 {
				r := []*replica{a, b}[i%2]
				group.Go(func() {
					_, err := r.service.OpenPortal(t.Context(), link, "")
					if err == nil {
						opened.Add(1)
					} else if errs.KindOf(err) != errs.Unauthenticated {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if opened.Load() != 1 {
				t.Fatalf("one link opened %d sessions", opened.Load())
			}
		}
	})
}

func TestPortal_sessions_and_links_end_by_time(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		id := r.supplier(nil).Supplier.ID
		late, session := r.portalLink(id), r.openPortal(r.portalLink(id), "")
		kept := func(table string) (n int) {
			if err := db.From(t.Context()).Raw(`SELECT count(*) FROM ` + table).Scan(&n).Error; err != nil {
				t.Fatal(err)
			}
			return n
		}
		r.clock.advance(portalLinkTTL + time.Microsecond)
		r.refusesLink(late)
		if err := r.service.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if links, sessions := kept("portal_links"), kept("portal_sessions"); links != 0 || sessions != 1 {
			t.Errorf("a link outlives its 5 minutes: %d links, %d sessions are kept", links, sessions)
		}
		r.clock.advance(supplierauth.PortalSessionTTL - portalLinkTTL - time.Second - time.Microsecond)
		if !r.signedIn(session, id) {
			t.Error("a session ended before its hour")
		}
		r.clock.advance(time.Second)
		if r.signedIn(session, id) {
			t.Error("a session outlived its hour")
		}
		r.clock.advance(time.Microsecond)
		if err := r.service.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := kept("portal_sessions"); n != 0 {
			t.Errorf("%d sessions are kept that have ended", n)
		}
	})
}

func TestPortal_sessions_and_links_end_with_sign_out_deactivation_and_revocation(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		id, other := r.supplier(nil).Supplier.ID, r.supplier(nil).Supplier.ID
		kept := r.openPortal(r.portalLink(other), "")
		for name, end := range map[string]func(session string) error{
			"sign-out": func(session string) error { return r.service.ClosePortal(t.Context(), session) },
			"revocation": func(string) error {
				_, err := r.service.RevokeSessions(t.Context(), id)
				return err
			},
			"deactivation": func(string) error { return r.service.Deactivate(t.Context(), id) },
		} {
			link, session := r.portalLink(id), r.openPortal(r.portalLink(id), "")
			if err := end(session); err != nil {
				t.Fatal(err)
			}
			if r.signedIn(session, id) {
				t.Errorf("the session goes on after %s", name)
			}
			if err := r.service.Activate(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if r.signedIn(session, id) {
				t.Errorf("the session goes on after %s and activation", name)
			}
			if name != "sign-out" {
				r.refusesLink(link)
			}
		}
		if !r.signedIn(kept, other) {
			t.Error("another supplier's session ended")
		}
	})
}

func TestPortal_revocation_ends_refresh_tokens_and_keeps_the_API_key(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		created := r.supplier(nil)
		pair := r.tokens(r.token(created.APIKey))
		if n, err := r.service.RevokeSessions(t.Context(), created.Supplier.ID); err != nil || n != 1 {
			t.Fatalf("%d sessions ended: %v", n, err)
		}
		r.refused(r.refresh(pair.RefreshToken), "invalid_grant")
		r.tokens(r.token(created.APIKey))
		if _, err := r.service.RevokeSessions(t.Context(), "sup_unknown"); errs.KindOf(err) != errs.NotFound {
			t.Errorf("an unknown supplier: %v", err)
		}
	})
}

func TestPortal_a_browser_s_former_session_ends_and_is_never_adopted(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		id := r.supplier(nil).Supplier.ID
		former := r.openPortal(r.portalLink(id), "chosen-by-another")
		if r.signedIn("chosen-by-another", id) {
			t.Error("a token that the caller brought became a session")
		}
		r.openPortal(r.portalLink(id), former)
		if r.signedIn(former, id) {
			t.Error("the former session goes on")
		}
	})
}

func TestPortal_a_deactivated_or_unknown_supplier_gets_no_link(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		id := r.supplier(nil).Supplier.ID
		if err := r.service.Deactivate(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		for supplier, kind := range map[string]errs.Kind{id: errs.Forbidden, "sup_unknown": errs.NotFound} {
			if _, _, err := r.service.NewPortalLink(t.Context(), supplier, true); errs.KindOf(err) != kind {
				t.Errorf("%s: %v", supplier, err)
			}
		}
	})
}
