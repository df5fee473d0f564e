package work

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// recorder keeps the last message that was published.
type recorder struct{ last Message }

func (r *recorder) Publish(subject string, body []byte) {
	r.last = Message{Subject: subject, Body: body}
}

func (r *recorder) Backlog(context.Context, string) (round.Backlog, error) {
	return round.Backlog{}, nil
}

func TestPublish_names_all_rounds_in_one_message_under_their_lowest_ticket(t *testing.T) {
	t.Parallel()
	var sent recorder
	one, two := round.Round{SupplierID: "acme", RequestID: -1, UID: 7, Number: 1},
		round.Round{SupplierID: "é", RequestID: 1, UID: 8, Number: 2}
	(&Service{deps: Deps{Queue: &sent}}).Publish(materials.Queued{Round: one, Ticket: 12},
		materials.Queued{Round: two, Ticket: 8})
	if diff := cmp.Diff(Message{Subject: "mr.work.8", Body: []byte("acme/-1/7/1\né/1/8/2\n")}, sent.last); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, ok := sent.last.rounds(); !ok || !slices.Equal(got, []round.Round{one, two}) {
		t.Errorf("it is read as %v, %t", got, ok)
	}
}

// FuzzWork: a message's rounds, written and read again, are the same.
func FuzzWork(f *testing.F) {
	f.Add("mr.work.1", []byte(nil))
	f.Add("mr.work.1", []byte("acme/1/1/1\nacme/2/2/1\n"))
	f.Add("mr.work.01", []byte("acme/1/1/1\n\n"))
	f.Add("mr.acme.1", []byte("acme/1/1/1\r\n"))
	f.Fuzz(func(t *testing.T, subject string, body []byte) {
		rounds, ok := Message{Subject: subject, Body: body}.rounds()
		if !ok || len(rounds) == 0 {
			return
		}
		work := make([]materials.Queued, len(rounds))
		for i, r := range rounds {
			work[i] = materials.Queued{Round: r, Ticket: 5}
		}
		var sent recorder
		(&Service{deps: Deps{Queue: &sent}}).Publish(work...)
		if again, ok := sent.last.rounds(); !ok || !slices.Equal(again, rounds) {
			t.Fatalf("%q became %v and then %v, %t", body, rounds, again, ok)
		}
	})
}
