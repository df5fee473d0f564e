package acceptance

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

const (
	slowAnswer    = 10 * time.Second
	slowSuppliers = 12              // chance gives each worker some
	slowEvery     = 3 * time.Second // between two requests of a slow supplier: three of its calls are open at any time
)

// slowReceiver answers each call after slowAnswer; a call whose worker dies is cut.
type slowReceiver struct {
	mu    sync.Mutex
	calls map[string]int  // by webhook-id
	cut   map[string]bool // webhook-ids whose last call was cut
	cuts  int
}

func (r *slowReceiver) answer(_ int, _ http.ResponseWriter, request *http.Request) {
	id := request.Header.Get("webhook-id")
	r.mu.Lock()
	r.calls[id]++
	delete(r.cut, id)
	r.mu.Unlock()
	select {
	case <-time.After(slowAnswer):
	case <-request.Context().Done():
		r.mu.Lock()
		r.cut[id] = true
		r.cuts++
		r.mu.Unlock()
	}
}

// open returns how many deliveries were called at all, how many of them are cut and not called again, and how many
// calls ever were.
func (r *slowReceiver) open() (called, cut, cuts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls), len(r.cut), r.cuts
}

// TestChaos_of_slow_receivers kills workers whose calls take 10 s, with the default WEBHOOK_TIMEOUT, and shows how long
// it takes until all is done but the slow answers themselves: every request is estimated, the healthy receiver has each
// of its deliveries, and every call of the dead worker has been made again by the other one.
func TestChaos_of_slow_receivers(t *testing.T) {
	if !inFull() {
		t.Skip("a minute of slow answers; run `make chaos`")
	}
	h := apptest.Start(t, apptest.Production, apptest.Options{})
	slow := &slowReceiver{calls: map[string]int{}, cut: map[string]bool{}}
	receiver := apptest.NewReceiver(t, slow.answer)
	healthy := newCountingReceiver(t)
	c := &chaos{t: t, hub: h, receiver: healthy,
		supplier: h.Supplier(t, "--access-ttl", "2h", "--webhook-url", healthy.url)}
	healthy.expect(secret(t, c.supplier.WebhookSecret))
	suppliers := make([]*apptest.Supplier, slowSuppliers)
	for i := range suppliers {
		suppliers[i] = h.Supplier(t, "--access-ttl", "2h", "--webhook-url", receiver.URL)
	}
	posted := 0
	for i, victim := range []int{0, 1, 0} {
		l := c.startClients()
		for end := time.Now().Add(slowAnswer); time.Now().Before(end); hold(slowEvery) {
			for _, s := range suppliers {
				submit(t, s, nil)
				posted++
			}
		}
		_, _, before := slow.open()
		h.Workers[victim].Kill()
		dead := time.Now()
		l.reaches(t, 100)
		accepted := l.end()
		last := time.Now()
		wait.Until(t, "all is done but the slow answers", func() bool {
			called, cut, _ := slow.open()
			return cut == 0 && called == posted && c.receiver.outcome(accepted).lost == 0 &&
				c.estimated(accepted) == len(accepted) && enqueued(t, suppliers) == 0
		})
		done := time.Now()
		_, _, cuts := slow.open()
		fmt.Printf("%-46s %6d accepted  %d slow calls cut  all done but the slow answers %.1f s after the death, "+
			"%.1f s after the last request\n",
			fmt.Sprintf("kill -9 of a worker with slow receivers, %d", i+1), len(accepted), cuts-before,
			done.Sub(dead).Seconds(), done.Sub(last).Seconds())
		if cuts == before {
			t.Error("the dead worker had no slow call in flight")
		}
		h.Workers[victim].Restart()
	}
	wait.Until(t, "the slow answers are there", func() bool { return accounted(t, h).Deliveries["pending"] == 0 })
}

func enqueued(t *testing.T, suppliers []*apptest.Supplier) (n int64) {
	t.Helper()
	for _, s := range suppliers {
		n += int64(len(listAll(t, s, "&status=enqueued")))
	}
	return n
}
