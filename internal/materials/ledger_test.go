package materials_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

func TestStatus_moves_only_as_the_diagram_says(t *testing.T) {
	t.Parallel()
	all := []materials.Status{materials.Enqueued, materials.Estimated, materials.Selected, materials.Failed, "other"}
	legal := map[string]bool{
		"enqueued estimated": true, "enqueued failed": true, "estimated estimated": true, "estimated selected": true,
		"estimated enqueued": true,
		"failed enqueued":    true, "failed estimated": true,
	}
	for _, from := range all {
		if from.Valid() == (from == "other") {
			t.Errorf("%s.Valid() = %t", from, from.Valid())
		}
		for _, to := range all {
			if got, want := from.CanBecome(to), legal[string(from)+" "+string(to)]; got != want {
				t.Errorf("from %s to %s: %t, want %t", from, to, got, want)
			}
		}
	}
}

func TestMarkFailed_fails_an_enqueued_request_only(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for i, status := range []materials.Status{materials.Enqueued, materials.Estimated, materials.Selected,
			materials.Failed} {
			p := newPipeline(t, db, nil)
			p.enqueue("acme", int64(i))
			p.exec("UPDATE material_requests SET status = ?, failure = 'old' WHERE id = ?", status, i)
			if err := p.MarkFailed(t.Context(), p.round("acme", int64(i)), "dial tcp 10.1.2.3:80: refused"); err != nil {
				t.Fatal(err)
			}
			r := p.row("acme", int64(i))
			if status != materials.Enqueued {
				if r.Status != string(status) || r.Failure != "old" {
					t.Errorf("%s became %s, %q", status, r.Status, r.Failure)
				}
				continue
			}
			if r.Status != "failed" ||
				r.Failure != "The delivery estimates were computed and could not be delivered in the whole retry schedule." {
				t.Errorf("enqueued became %s, %q", r.Status, r.Failure)
			}
			if line := p.logs.only(t); line["request_id"] != "trace-acme-0" || line["supplier_id"] != "acme" {
				t.Errorf("the log line lacks whose request it was: %v", line)
			}
		}
	})
}

func TestMarkFailed_and_MarkRedelivered_of_an_unknown_request_do_nothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		gone := round.Round{SupplierID: "acme", RequestID: 1, UID: 1, Number: 1}
		if err := errors.Join(p.MarkFailed(t.Context(), gone, "x"), p.MarkRedelivered(t.Context(), gone)); err != nil {
			t.Error(err)
		}
	})
}

func TestMarkFailed_and_MarkRedelivered_join_the_transaction(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		p.enqueue("acme", 2)
		p.exec("UPDATE material_requests SET status = 'failed' WHERE id = 2")
		undo := errors.New("undo")
		err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
			return errors.Join(p.MarkFailed(ctx, p.round("acme", 1), "x"), p.MarkRedelivered(ctx, p.round("acme", 2)), undo)
		})
		if !errors.Is(err, undo) {
			t.Fatal(err)
		}
		p.expectStatus("acme", 1, materials.Enqueued)
		p.expectStatus("acme", 2, materials.Failed)
	})
}

func TestMarkFailed_and_MarkRedelivered_of_an_earlier_round_do_nothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		first := p.round("acme", 1)
		expect(t, p.deliver("msg_1", event("acme", 1, noon, "theirs")), 200) // the round's own delivery is still tried
		expect(t, p.reestimate("acme", 1), 202)
		if err := p.MarkFailed(t.Context(), first, "final"); err != nil {
			t.Fatal(err)
		}
		p.expectStatus("acme", 1, materials.Enqueued)
		if err := p.MarkFailed(t.Context(), p.round("acme", 1), "final"); err != nil {
			t.Fatal(err)
		}
		if err := p.MarkRedelivered(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		p.expectStatus("acme", 1, materials.Failed)
	})
}

func TestMarkRedelivered(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.now.Store(noon.Add(time.Hour).UnixMicro())
		for id, state := range []string{"status = 'failed', failure = 'x', due_at = NULL",
			"status = 'selected', due_at = NULL"} {
			p.enqueue("acme", int64(id))
			p.exec("UPDATE material_requests SET "+state+" WHERE id = ?", id)
			if err := p.MarkRedelivered(t.Context(), p.round("acme", int64(id))); err != nil {
				t.Fatal(err)
			}
		}
		if n := p.due(); n != 0 {
			t.Errorf("%d are due; its event is on its way", n)
		}
		delivered, other := p.row("acme", 0), p.row("acme", 1)
		if delivered.Status != "enqueued" || delivered.Failure != "" || delivered.Round != 1 {
			t.Errorf("a failed request became %+v", delivered)
		}
		if other.Status != "selected" || other.UpdatedAt != noon.UnixMicro() {
			t.Errorf("a request that had not failed became %+v", other)
		}
	})
}

func TestReopen_begins_a_new_round_of_a_failed_request_only(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		for id, status := range []materials.Status{materials.Enqueued, materials.Estimated, materials.Selected,
			materials.Failed} {
			p.enqueue("acme", int64(id))
			p.exec("UPDATE material_requests SET status = ?, due_at = NULL, failure = 'x' WHERE id = ?", status, id)
			err := p.Reopen(t.Context(), "acme", int64(id))
			if (err == nil) != (status == materials.Failed) || err != nil && errs.KindOf(err) != errs.Conflict {
				t.Errorf("from %s: %v", status, err)
			}
		}
		if r := p.row("acme", 3); r.Status != "enqueued" || r.Round != 2 || r.DueAt == nil {
			t.Errorf("the failed one became %+v", r)
		}
		if diff := cmp.Diff([]string{"acme/3/2"}, p.world.takePublished()); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		if err := p.Reopen(t.Context(), "acme", 99); errs.KindOf(err) != errs.NotFound {
			t.Errorf("an unknown one: %v", err)
		}
	})
}
