package supplierauth_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

func TestWebhookURL_accepted_and_refused(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	strict := newReplica(t, db, newClock(), nil)
	loose := newReplica(t, db, newClock(), func(d *supplierauth.Deps) { d.AllowPrivateWebhooks = true })
	set := func(r *replica, id, address string) error {
		_, err := r.service.UpdateSupplier(t.Context(), id, supplierauth.SupplierPatch{WebhookURL: &address})
		return err
	}
	id := strict.supplier(nil).Supplier.ID
	for _, address := range []string{"", "https://a.example", "http://a.example:8080/base/", "https://[2606:4700::1]/x",
		"https://bücher.example"} {
		if err := set(strict, id, address); err != nil {
			t.Errorf("%s is refused: %v", address, err)
		}
	}
	private := []string{"http://127.0.0.1", "http://10.0.0.1:80", "http://[::1]", "http://169.254.169.254",
		"http://100.64.1.1", "http://１２７.0.0.1", "http://[fe80::1%25eth0]", "http://0.0.0.0", "http://[::ffff:10.0.0.1]",
		"http://224.0.0.1"}
	for _, address := range private {
		if err := set(strict, id, address); errs.KindOf(err) != errs.Invalid {
			t.Errorf("%s: %v", address, err)
		}
		if err := set(loose, id, address); err != nil {
			t.Errorf("%s is refused where private addresses are allowed: %v", address, err)
		}
	}
	for _, address := range []string{"ftp://a.example", "a.example", "//a.example", "https://",
		"https://user:secret-pw@a.example", "https://a.example?x=1", "https://a.example#x", "https://a.example:0",
		"https://a.example:70000", "https://a.example:", "https://a.example/" + strings.Repeat("x", 2100), "https://a\x00b",
		"https://a b", "https://ü\u200d.example"} {
		if err := set(loose, id, address); errs.KindOf(err) != errs.Invalid || strings.Contains(err.Error(), "secret-pw") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestSupplier_every_violation_is_named(t *testing.T) {
	t.Parallel()
	r := newReplica(t, databasetest.Open(t, database.SQLite), newClock(), nil)
	_, err := r.service.CreateSupplier(t.Context(),
		supplierauth.Supplier{Name: " ", WebhookURL: "x", AccessTTL: time.Millisecond, RefreshTTL: 366 * 24 * time.Hour,
			Scopes: []string{"products", "root"}})
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	var pointers []string
	for _, v := range e.Violations {
		pointers = append(pointers, *v.Pointer)
	}
	if got := strings.Join(pointers, " "); got != "/name /webhook_url /access_ttl /refresh_ttl /scopes/1" {
		t.Errorf("named %s", got)
	}
}

func TestSupplier_changes_and_lists(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		clock := newClock()
		r := newReplica(t, db, clock, nil)
		a := r.supplier(nil).Supplier
		clock.advance(time.Second)
		b := r.supplier(nil).Supplier
		name, scopes := "Renamed", []string{"orders:read"}
		changed, err := r.service.UpdateSupplier(t.Context(), a.ID, supplierauth.SupplierPatch{Name: &name, Scopes: &scopes})
		if err != nil || changed.Name != name || changed.AccessTTL != a.AccessTTL || len(changed.Scopes) != 1 {
			t.Fatalf("got %+v, %v", changed, err)
		}
		list, err := r.service.ListSuppliers(t.Context())
		if err != nil || len(list) != 2 || list[0].Name != name || list[1].ID != b.ID {
			t.Fatalf("got %+v, %v", list, err)
		}
		for what, err := range map[string]error{
			"deactivate": r.service.Deactivate(t.Context(), "sup_unknown"),
			"activate":   r.service.Activate(t.Context(), "sup_unknown"),
		} {
			if errs.KindOf(err) != errs.NotFound {
				t.Errorf("%s an unknown supplier: %v", what, err)
			}
		}
		if _, err := r.service.RotateWebhookSecret(t.Context(), a.ID, -time.Second); errs.KindOf(err) != errs.Invalid {
			t.Errorf("a negative overlap: %v", err)
		}
	})
}

func TestReceiver_takes_the_calls_at_once_that_were_set_for_it_or_the_general_limit(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), func(d *supplierauth.Deps) { d.ReceiverConcurrency = 64 })
		own, general := 8, r.supplier(nil).Supplier.ID
		id := r.supplier(func(n *supplierauth.Supplier) { n.ReceiverConcurrency = &own }).Supplier.ID
		receivers, err := r.service.Receivers(t.Context(), []string{id, general})
		if err != nil || receivers[id].Concurrency != 8 || receivers[general].Concurrency != 64 {
			t.Fatalf("got %+v, %v", receivers, err)
		}
		own = 10_000
		if changed, err := r.service.UpdateSupplier(t.Context(), general,
			supplierauth.SupplierPatch{ReceiverConcurrency: &own}); err != nil || *changed.ReceiverConcurrency != own {
			t.Errorf("got %+v, %v", changed, err)
		}
		for _, bad := range []int{0, -1, 10_001} {
			if _, err := r.service.UpdateSupplier(t.Context(), id,
				supplierauth.SupplierPatch{ReceiverConcurrency: &bad}); errs.KindOf(err) != errs.Invalid {
				t.Errorf("%d is accepted: %v", bad, err)
			}
		}
	})
}
