package acceptance

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

const (
	ownersSuppliers = 12 // of `make chaos`
	ownersLimit     = 2  // calls at once that each receiver allows
	ownersMoves     = 3  // times that each kind of end comes: each end and each start moves 8 of 32 shards
)

// busiest is a receiver with a limit, and how many calls it had at once.
type busiest struct {
	now, most chan int // hold one number each
}

func newBusiest() *busiest {
	b := &busiest{make(chan int, 1), make(chan int, 1)}
	b.now <- 0
	b.most <- 0
	return b
}

// answer takes a moment, so that calls meet. A call whose worker is gone is over.
func (b *busiest) answer(_ int, _ http.ResponseWriter, r *http.Request) {
	n := <-b.now + 1
	most := <-b.most
	b.most <- max(most, n)
	b.now <- n
	select {
	case <-time.After(20 * time.Millisecond):
	case <-r.Context().Done():
	}
	n = <-b.now
	b.now <- n - 1
}

// Workers are killed, stopped for longer than their lease and ended under load: what was theirs moves to the others.
func TestChaos_of_owners_that_come_and_go_estimates_hardly_a_round_twice_and_keeps_each_receivers_limit(t *testing.T) {
	t.Parallel()
	rounds, suppliers, most := 1, 4, 20 // of 100: a busy machine holds back messages, and each end leaves what was in hand
	if inFull() {
		rounds, suppliers, most = ownersMoves, ownersSuppliers, 1
	}
	traces := newCollector(t)
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 4, Env: map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": traces.URL, "OTEL_BSP_SCHEDULE_DELAY": "50"}})
	var receivers []*apptest.Receiver
	var limits []*busiest
	var loads []*load
	for range suppliers {
		limit := newBusiest()
		receiver := apptest.NewReceiver(t, limit.answer)
		s := h.Supplier(t, "--webhook-url", receiver.URL, "--receiver-concurrency", "2")
		receivers, limits, loads = append(receivers, receiver), append(limits, limit), append(loads, startLoad(t, h, s, 1))
	}
	for range rounds {
		killed(h.Workers[0], 4*time.Second)
		h.Workers[1].Signal(syscall.SIGSTOP)
		hold(5 * time.Second) // its lease ends after 3
		h.Workers[1].Signal(syscall.SIGCONT)
		for _, worker := range h.Workers[2:] {
			if code := worker.Stop(); code != 0 {
				t.Errorf("%s: exit code %d after SIGTERM", worker.Name, code)
			}
			worker.Restart()
			hold(2 * time.Second)
		}
	}
	var accepted, again, overLimit int
	for i, l := range loads {
		l.stop()
		l.group.Wait()
		accepted += int(l.accepted.Load())
		wait.Until(t, "all are delivered", func() bool { return len(webhookIDs(receivers[i])) == int(l.accepted.Load()) })
		again += len(receivers[i].Calls()) - int(l.accepted.Load())
		if <-limits[i].most > ownersLimit {
			overLimit++
		}
	}
	estimations, estimated := traces.called("estimate"), map[string]bool{} // a killed worker's last spans are lost
	for _, e := range estimations {
		estimated[e.attributes["supplier_id"]+"/"+e.attributes["material_request_id"]] = true
	}
	twice := len(estimations) - len(estimated)
	t.Logf("%d accepted, %d estimated again, %d calls again, %d of %d receivers had more than %d calls at once", accepted,
		twice, again, overLimit, suppliers, ownersLimit)
	if twice*100 > accepted*most {
		t.Errorf("%d of %d rounds were estimated again", twice, accepted)
	}
	if overLimit > 0 {
		t.Errorf("the limits of %d receivers were exceeded", overLimit)
	}
	accounted(t, h)
}

// webhookIDs are the deliveries that a receiver got.
func webhookIDs(r *apptest.Receiver) map[string]bool {
	ids := map[string]bool{}
	for _, c := range r.Calls() {
		ids[c.Header.Get("webhook-id")] = true
	}
	return ids
}
