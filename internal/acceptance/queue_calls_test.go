package acceptance

import (
	"encoding/json"
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
			subject := string(quoted[1])
			if strings.HasPrefix(subject, "mr.") {
				subject = "mr.>" // a probe is made only while messages fail: all of them fail together
			}
			subjects = append(subjects, subject)
		}
	}
	slices.Sort(subjects)
	if subjects = slices.Compact(subjects); len(subjects) < 6 {
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

// replaceStream makes another stream in the place of the service's, which makes its own as soon as it finds none.
func (r *natsRig) replaceStream(config jetstream.StreamConfig) {
	r.t.Helper()
	wait.Until(r.t, "the other stream is made", func() bool {
		_ = r.js.DeleteStream(r.t.Context(), "MR") // maybe it is not there at the moment
		_, err := r.js.CreateStream(r.t.Context(), config)
		return err == nil
	})
}

func (r *natsRig) editStream(change func(*jetstream.StreamConfig)) {
	r.t.Helper()
	config := r.stream().CachedInfo().Config
	change(&config)
	_, err := r.js.UpdateStream(r.t.Context(), config)
	r.must(err)
}

// deleteConsumers deletes those of the workers.
func (r *natsRig) deleteConsumers() {
	r.t.Helper()
	names := r.stream().ConsumerNames(r.t.Context())
	for name := range names.Name() {
		r.must(r.js.DeleteConsumer(r.t.Context(), "MR", name))
	}
	r.must(names.Err())
}

// needs makes the service make a call that it makes seldom.
func (r *natsRig) needs(subject string) {
	switch strings.TrimSuffix(strings.TrimPrefix(subject, "$JS.API."), ".MR") {
	case "STREAM.CREATE":
		r.deleteStream()
	case "STREAM.UPDATE":
		r.editStream(func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 })
	case "CONSUMER.CREATE.MR.*":
		r.deleteConsumers()
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
	r := newNATSRig(t)
	calls, faults := natsCalls(t), queuetest.Faults
	if !inFull() { // all of them take minutes
		calls, faults = []string{"mr.>", "$JS.API.CONSUMER.MSG.NEXT.MR.*"}, []queuetest.Fault{queuetest.Fails}
	}
	for _, subject := range calls {
		for _, fault := range faults {
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
				wait.Until(t, "a process says so", func() bool {
					becomes(t, r.supplier, submit(t, r.supplier, nil), "estimated")
					return r.said()
				})
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
