package webhooks

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

func TestFlow_waits_until_another_worker_has_ended_what_it_was_handed_or_is_not_heard_of(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFlow()
		took := func(limit int, most time.Duration) time.Duration {
			start := time.Now()
			f.wait(limit, most)
			return time.Since(start)
		}
		f.handed(7, 10)
		if d := took(11, time.Minute); d != 0 {
			t.Errorf("it waited %s below the limit", d)
		}
		if d := took(10, time.Second); d != time.Second {
			t.Errorf("it waited %s at the limit", d)
		}
		waited := make(chan time.Duration)
		go func() { waited <- took(10, time.Minute) }()
		synctest.Wait()
		f.release(7, 1)
		if d := <-waited; d != 0 {
			t.Errorf("it waited %s although one has ended", d)
		}
		f.handed(7, 5)
		time.Sleep(unheard + 1)
		if d := took(10, time.Minute); d != 0 {
			t.Errorf("it waited %s for a worker that says nothing", d)
		}
	})
}

func TestFlow_hands_over_beside_a_backlog_what_leaves_room_for_others_and_is_not_refused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFlow()
		for n := range 20 {
			if may := f.mayJoin(7, "acme", 10); may != (n < 10) {
				t.Errorf("beside %d others: %v", n, may)
			}
			f.handed(7, 1)
		}
		f.release(7, 15)
		f.refuse([]string{"acme"})
		for name, want := range map[string]bool{"acme": false, "other": true} {
			if may := f.mayJoin(7, name, 10); may != want {
				t.Errorf("for %s after acme was refused: %v", name, may)
			}
		}
		time.Sleep(fullFor)
		if !f.mayJoin(7, "acme", 10) {
			t.Error("it is never tried again")
		}
	})
}

func TestEnded_messages_lead_back_to_what_ended_and_was_refused(t *testing.T) {
	t.Parallel()
	f := newFlow()
	for range reportBatch {
		f.finished(7)
	}
	for _, supplierID := range []string{"a", "b", "a"} {
		f.refused(7, supplierID)
	}
	worker, got, ok := cutEnded(f.takeEnded()[7].message(9))
	if want := (ended{reportBatch, []string{"a", "b"}}); !ok || worker != 9 || !reflect.DeepEqual(got, want) {
		t.Errorf("%v from %d, %v", got, worker, ok)
	}
	if len(f.takeEnded()) != 0 {
		t.Error("it is reported twice")
	}
}

func TestHandover_messages_lead_back_to_their_jobs_and_take_no_other_signature(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_795_000_000, 0)
	d := &Dispatcher{deps: Deps{OwnSecrets: []webhook.Secret{webhook.NewSecret()}, Now: func() time.Time { return now }}}
	rapid.Check(t, func(rt *rapid.T) {
		var message []byte
		var jobs []job
		for range rapid.IntRange(1, 5).Draw(rt, "jobs") {
			j := job{
				id: rapid.String().Draw(rt, "id"), destination: rapid.String().Draw(rt, "destination"),
				traceID: rapid.String().Draw(rt, "trace"),
				worker:  rapid.Int64().Draw(rt, "worker"), origin: rapid.Int64Min(1).Draw(rt, "origin"),
				begun: time.UnixMicro(rapid.Int64().Draw(rt, "begun")), seen: rapid.String().Draw(rt, "seen"),
				body: rapid.SliceOf(rapid.Byte()).Draw(rt, "body"),
				round: round.Round{SupplierID: rapid.String().Draw(rt, "supplier"),
					RequestID: rapid.Int64().Draw(rt, "request"), UID: rapid.Int64().Draw(rt, "uid"),
					Number: rapid.Int64().Draw(rt, "number")},
			}
			jobs, message = append(jobs, j), appendJob(message, j)
		}
		sealed := d.sealed(message)
		rest, err := d.unsealed(sealed)
		for _, want := range jobs {
			if err != nil {
				rt.Fatal(err)
			}
			var got job
			got, rest, err = cutJob(rest)
			if got.id != want.id || got.round != want.round || got.worker != want.worker || got.origin != want.origin ||
				!got.begun.Equal(want.begun) || got.seen != want.seen ||
				string(got.body) != string(want.body) || got.destination != want.destination || got.traceID != want.traceID {
				rt.Fatalf("%+v became %+v", want, got)
			}
		}
		if err != nil || len(rest) != 0 {
			rt.Fatalf("%d bytes are left: %v", len(rest), err)
		}
		sealed[len(sealed)-1]++
		if _, err := d.unsealed(sealed); err == nil {
			rt.Fatal("a changed message is taken")
		}
	})
}

func TestJob_of_a_worker_of_the_version_before_is_understood(t *testing.T) {
	t.Parallel()
	message := appendJob(nil, job{id: "msg_1", origin: 7, worker: 8, destination: "sup", body: []byte("{}")})
	before := message[1 : len(message)-1] // without the mark and the empty digest
	j, rest, err := cutJob(before)
	if err != nil || len(rest) != 0 || j.id != "msg_1" || j.origin != 7 || j.worker != 8 || string(j.body) != "{}" {
		t.Errorf("%+v, %d bytes are left, %v", j, len(rest), err)
	}
}

func FuzzHandover(f *testing.F) {
	f.Add(appendJob(nil, job{id: "msg_1", destination: "sup", body: []byte("{}")}))
	f.Fuzz(func(_ *testing.T, message []byte) {
		for err := error(nil); err == nil && len(message) > 0; {
			cutEnded(message)
			_, message, err = cutJob(message)
		}
	})
}
