package acceptance

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
)

// natsCalls are the subjects of all calls to NATS: no process may make another one, with the rights that are given.
func natsCalls(t *testing.T) (subjects []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deployments", "nats-users.conf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range regexp.MustCompile(`(?s)publish: \[(.*?)\]`).FindAllSubmatch(text, -1) {
		for _, quoted := range regexp.MustCompile(`"([^"]+)"`).FindAllSubmatch(list[1], -1) {
			subjects = append(subjects, string(quoted[1]))
		}
	}
	slices.Sort(subjects)
	if subjects = slices.Compact(subjects); len(subjects) < 10 {
		t.Fatalf("the rights name %v", subjects)
	}
	return subjects
}

// natsRig is a service whose calls to NATS pass a proxy, and an operator who does not pass it.
type natsRig struct {
	*apptest.Hub
	t        *testing.T
	proxy    *queuetest.Proxy
	js       jetstream.JetStream
	supplier *apptest.Supplier
}

func newNATSRig(t *testing.T) *natsRig {
	t.Helper()
	server := queuetest.New(t)
	r := &natsRig{t: t, proxy: queuetest.NewProxy(t, server), js: natsOperator(t, server.URL())}
	r.Hub = apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1,
		Env: map[string]string{"NATS_URL": r.proxy.URL()}})
	r.supplier = r.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
	becomes(t, r.supplier, submit(t, r.supplier, nil), "estimated")
	return r
}

// natsOperator changes things behind the service's back.
func natsOperator(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func (r *natsRig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *natsRig) stream() jetstream.Stream {
	r.t.Helper()
	stream, err := r.js.Stream(r.t.Context(), "MR")
	r.must(err)
	return stream
}

func (r *natsRig) deleteStream() {
	r.t.Helper()
	r.must(r.js.DeleteStream(r.t.Context(), "MR"))
}

func (r *natsRig) editStream(change func(*jetstream.StreamConfig)) {
	r.t.Helper()
	config := r.stream().CachedInfo().Config
	change(&config)
	_, err := r.js.UpdateStream(r.t.Context(), config)
	r.must(err)
}

func (r *natsRig) editConsumer() {
	r.t.Helper()
	consumer, err := r.js.Consumer(r.t.Context(), "MR", "worker")
	r.must(err)
	config := consumer.CachedInfo().Config
	config.FilterSubject = "mr.zzz"
	_, err = r.js.UpdateConsumer(r.t.Context(), "MR", config)
	r.must(err)
}

func (r *natsRig) pauseConsumer() {
	r.t.Helper()
	_, err := r.js.PauseConsumer(r.t.Context(), "MR", "worker", time.Now().Add(time.Hour))
	r.must(err)
}

// needs makes the service make a call that it makes seldom.
func (r *natsRig) needs(subject string) {
	switch strings.TrimSuffix(strings.TrimPrefix(subject, "$JS.API."), ".MR") {
	case "STREAM.CREATE":
		r.deleteStream()
	case "STREAM.UPDATE":
		r.editStream(func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 })
	case "CONSUMER.CREATE.MR.worker":
		r.must(r.js.DeleteConsumer(r.t.Context(), "MR", "worker"))
	case "CONSUMER.DELETE.MR.worker":
		r.editConsumer()
	case "CONSUMER.PAUSE.MR.worker", "STREAM.MSG.GET": // the messages that wait are looked at
		r.pauseConsumer()
	case "workers.MR.>": // the owner of a receiver hears of its pause
		want(r.t, r.supplier.Do(r.t, http.MethodPost, "/api/webhook-receiver/pause", nil), http.StatusOK)
		want(r.t, r.supplier.Do(r.t, http.MethodPost, "/api/webhook-receiver/resume", nil), http.StatusOK)
	}
}

// said reports whether a process says in /readyz that something is wrong with the queue, and has logged it: a fault
// that lasts or comes back is logged once a minute.
func (r *natsRig) said() bool {
	for _, p := range r.processes() {
		_, body := natsReadiness(r.t, p)
		var h struct{ Checks map[string]string }
		if json.Unmarshal([]byte(body), &h) != nil || h.Checks["nats"] == "ok" {
			continue
		}
		if reason := h.Checks["nats"]; strings.Contains(p.Log(), reason[:min(len(reason), 50)]) {
			return true
		}
	}
	return false
}

func (r *natsRig) processes() []*apptest.Process { return append(slices.Clone(r.APIs), r.Workers...) }

func (r *natsRig) well() bool {
	for _, p := range r.processes() {
		if _, body := natsReadiness(r.t, p); !strings.Contains(body, `"nats":"ok"`) {
			return false
		}
	}
	return true
}

// Each call to NATS fails, gets no answer or a late one, in turn.
func TestQueue_calls_that_fail_delay_no_request(t *testing.T) {
	t.Parallel()
	short := !inFull()
	// A lost one of these costs no work: it is done, or found by its receiver.
	harmless := []string{"$JS.ACK.MR.worker.>", "workers.MR.>"}
	r := newNATSRig(t)
	for _, subject := range natsCalls(t) {
		for _, fault := range queuetest.Faults {
			if often := []string{"mr.>", "$JS.API.CONSUMER.MSG.NEXT.MR.worker"}; short &&
				(fault != queuetest.Fails || !slices.Contains(often, subject)) {
				continue // all of them take minutes
			}
			ok := t.Run(subject+" "+string(fault), func(t *testing.T) {
				r.t = t
				r.proxy.Spoil(subject, fault)
				r.needs(subject)
				begun := time.Now()
				ids := []int64{submit(t, r.supplier, nil), submit(t, r.supplier, nil)}
				for _, id := range ids {
					becomes(t, r.supplier, id, "estimated")
				}
				t.Logf("estimated after %s", time.Since(begun).Round(time.Millisecond))
				wait.Until(t, "the call is made", func() bool { return r.proxy.Hits() > 0 })
				if !slices.Contains(harmless, subject) {
					wait.Until(t, "a process says so", func() bool {
						if strings.Contains(subject, ".MSG.GET.") {
							r.needs(subject) // the pause is ended meanwhile, and no message waits
						}
						becomes(t, r.supplier, submit(t, r.supplier, nil), "estimated")
						return r.said()
					})
				}
				r.proxy.Heal()
				wait.Until(t, "all is well again", func() bool {
					becomes(t, r.supplier, submit(t, r.supplier, nil), "estimated")
					return r.well()
				})
			})
			if !ok {
				return
			}
		}
	}
}
