package materials_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/materials"
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
		for i, status := range []materials.Status{materials.Enqueued, materials.Estimated, materials.Selected, materials.Failed} {
			p := newPipeline(t, db, nil)
			p.enqueue("acme", int64(i))
			p.exec("UPDATE material_requests SET status = ?, failure = 'old' WHERE id = ?", status, i)
			if err := p.MarkFailed(t.Context(), "acme", int64(i), strings.Repeat("é", 800)); err != nil {
				t.Fatal(err)
			}
			r := p.row("acme", int64(i))
			if status != materials.Enqueued {
				if r.Status != string(status) || r.Failure != "old" {
					t.Errorf("%s became %s, %q", status, r.Status, r.Failure)
				}
				continue
			}
			if r.Status != "failed" || r.Failure != strings.Repeat("é", 500) {
				t.Errorf("enqueued became %s, %q", r.Status, r.Failure)
			}
			if line := p.logs.only(t); line["request_id"] != "trace-acme-0" || line["supplier_id"] != "acme" {
				t.Errorf("the log line lacks whose request it was: %v", line)
			}
		}
	})
}

func TestMarkFailed_and_Reopen_of_an_unknown_request_do_nothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		if err := errors.Join(p.MarkFailed(t.Context(), "acme", 1, "x"), p.Reopen(t.Context(), "acme", 1)); err != nil {
			t.Error(err)
		}
	})
}

func TestMarkFailed_and_Reopen_join_the_transaction(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		p.enqueue("acme", 2)
		p.exec("UPDATE material_requests SET status = 'failed' WHERE id = 2")
		undo := errors.New("undo")
		err := db.InTx(t.Context(), func(ctx context.Context) error {
			return errors.Join(p.MarkFailed(ctx, "acme", 1, "x"), p.Reopen(ctx, "acme", 2), undo)
		})
		if !errors.Is(err, undo) {
			t.Fatal(err)
		}
		p.expectStatus("acme", 1, materials.Enqueued)
		p.expectStatus("acme", 2, materials.Failed)
	})
}

func TestReopen(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		later := noon.Add(time.Hour)
		p.now.Store(later.UnixMicro())
		p.store("acme", 0)
		for id, state := range []string{"status = 'failed', failure = 'x'", "status = 'failed', failure = 'x'", "status = 'selected'"} {
			p.enqueue("acme", int64(id))
			p.exec("UPDATE material_requests SET "+state+" WHERE id = ?", id)
			if err := p.Reopen(t.Context(), "acme", int64(id)); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := p.sweep(); err != nil || n != 1 {
			t.Errorf("published %d, %v; want the request whose event is not stored", n, err)
		}
		delivered, never, other := p.row("acme", 0), p.row("acme", 1), p.row("acme", 2)
		if delivered.Status != "enqueued" || delivered.Failure != "" || delivered.SweepAt != nil {
			t.Errorf("a request whose event is stored became %+v", delivered)
		}
		if never.Status != "enqueued" || never.SweepAt == nil {
			t.Errorf("a request without an event became %+v", never)
		}
		if other.Status != "selected" || other.UpdatedAt != noon.UnixMicro() {
			t.Errorf("a request that had not failed became %+v", other)
		}
		if err := p.work("acme", 1); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(p.events(), "acme/1/1") {
			t.Error("the reopened request was not estimated again")
		}
	})
}
