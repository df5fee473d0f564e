package acceptance

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// span is what a collector was sent, ids in hex.
type span struct {
	trace, id, parent, name string
	kind                    tracepb.Span_SpanKind
	attributes              map[string]string
	failed                  bool
}

// collector is an OTLP endpoint over HTTP.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []span
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData // on the wire the same as an export request
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("a call of %s cannot be read: %v", r.URL.Path, err)
		}
		c.take(&data)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

// startTraced starts one api and one worker with a setting, which send their spans to the collector soon.
func startTraced(t *testing.T, stack apptest.Stack, variable, value string) (*collector, *apptest.Hub) {
	t.Helper()
	c := newCollector(t)
	return c, apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1, Env: map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_BSP_SCHEDULE_DELAY": "100", variable: value,
	}})
}

func (c *collector) take(data *tracepb.TracesData) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range data.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				taken := span{
					failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR,
					trace:  hex.EncodeToString(s.GetTraceId()), id: hex.EncodeToString(s.GetSpanId()),
					parent: hex.EncodeToString(s.GetParentSpanId()),
					name:   s.GetName(), kind: s.GetKind(), attributes: map[string]string{},
				}
				for _, a := range s.GetAttributes() {
					taken.attributes[a.GetKey()] = a.GetValue().GetStringValue()
					if n, isInt := a.GetValue().GetValue().(*commonpb.AnyValue_IntValue); isInt {
						taken.attributes[a.GetKey()] = strconv.FormatInt(n.IntValue, 10)
					}
				}
				c.spans = append(c.spans, taken)
			}
		}
	}
}

// of returns the spans of a request's story, whatever trace they are in.
func (c *collector) of(requestID string) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(func(yield func(span) bool) {
		for _, s := range c.spans {
			if s.attributes["request_id"] == requestID && !yield(s) {
				return
			}
		}
	})
}

// called returns the spans of a name by their id.
func (c *collector) called(name string) map[string]span {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]span{}
	for _, s := range c.spans {
		if s.name == name {
			found[s.id] = s
		}
	}
	return found
}

// traces returns the traces that anything but the sessions is in.
func (c *collector) traces() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []string
	for _, s := range c.spans {
		if !strings.Contains(s.name, "/api/external-auth/") && !slices.Contains(found, s.trace) {
			found = append(found, s.trace)
		}
	}
	return found
}

// story counts the kinds of spans that a request's story has.
func story(spans []span, supplierID string) (posted, estimated, own, supplier, received int) {
	for _, s := range spans {
		switch {
		case s.name == "estimate":
			estimated++
		case s.name == "webhook attempt" && s.attributes["destination"] == "own":
			own++
		case s.name == "webhook attempt" && s.attributes["destination"] == supplierID:
			supplier++
		case strings.HasSuffix(s.name, "/delivery-estimates"):
			received++
		case strings.HasSuffix(s.name, requests):
			posted++
		}
	}
	return posted, estimated, own, supplier, received
}

func TestTraces_show_all_of_a_request_in_the_caller_s_trace(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			c, h := startTraced(t, stack, "WEBHOOK_RETRY_SCHEDULE", "100ms,100ms,100ms")
			var mu sync.Mutex
			carried := map[string][]string{} // by webhook-id
			receiver := apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				id := r.Header.Get("webhook-id")
				if state := r.Header.Get("tracestate"); state != "vendor=known" {
					t.Errorf("an attempt carries tracestate %q", state)
				}
				if carried[id] = append(carried[id], r.Header.Get("traceparent")); len(carried[id]) == 1 {
					w.WriteHeader(http.StatusServiceUnavailable) // the second attempt is read from the database
				}
			})
			s := h.Supplier(t, "--webhook-url", receiver.URL)
			const calls = 8
			callers := map[string]string{} // X-Request-Id to the caller's trace
			var posting sync.WaitGroup
			for i := range calls {
				id, trace := fmt.Sprintf("story-%d", i), fmt.Sprintf("%032x", 0xabc000+i)
				callers[id] = trace
				posting.Go(func() { // at once: they share batches
					want(t, s.Do(t, http.MethodPost, requests, request(nextID(), nil), "X-Request-Id", id, "traceparent", "00-"+trace+
						"-00000000000000aa-01", "tracestate", "vendor=known"), http.StatusCreated)
				})
			}
			posting.Wait()
			for id, trace := range callers {
				wait.Until(t, "the collector has the whole story", func() bool {
					posted, estimated, own, supplier, received := story(c.of(id), s.ID)
					return posted == 1 && estimated == 1 && own == 1 && supplier == 2 && received == 1
				})
				spans := c.of(id)
				known := map[string]bool{"00000000000000aa": true}
				for _, one := range spans {
					known[one.id] = true
				}
				for _, one := range spans {
					if one.name == "webhook attempt" {
						isCall(t, one, receiver.URL, h.BaseURL())
					}
					if one.trace != trace {
						t.Errorf("%s of %s is in trace %s, the caller's is %s", one.name, id, one.trace, trace)
					}
					if !known[one.parent] {
						t.Errorf("%s of %s has a parent that was never sent: %s", one.name, id, one.parent)
					}
				}
			}
			if traces := c.traces(); len(traces) != calls {
				t.Errorf("%d requests made %d traces: %v", calls, len(traces), traces)
			}
			mu.Lock()
			defer mu.Unlock()
			seen := map[string]bool{}
			for id, headers := range carried {
				for _, header := range headers {
					parts := strings.Split(header, "-")
					if len(parts) != 4 || seen[header] || !slices.Contains(slices.Collect(maps.Values(callers)), parts[1]) {
						t.Errorf("an attempt of %s carries traceparent %q", id, header)
						continue
					}
					seen[header] = true // each attempt is a span of its own
				}
			}
			if len(seen) != 2*calls {
				t.Errorf("%d attempts carried a traceparent, not %d", len(seen), 2*calls)
			}
		})
	}
}

// isCall fails unless the span is that of an HTTP client: service graphs are drawn from these.
func isCall(t *testing.T, one span, receiver, own string) {
	t.Helper()
	to, a := receiver, one.attributes
	if a["destination"] == "own" {
		to = own
	}
	host, port, _ := strings.Cut(strings.TrimPrefix(to, "http://"), ":")
	failed := a["http.response.status_code"] == "503"
	if one.kind != tracepb.Span_SPAN_KIND_CLIENT || a["http.request.method"] != "POST" ||
		!strings.HasPrefix(a["url.full"], to+"/api/material-requests/") || a["server.address"] != host ||
		a["server.port"] != port || !failed && a["http.response.status_code"] != "200" || one.failed != failed ||
		failed != (a["error.type"] == "503") {
		t.Errorf("an attempt's span is %+v", one)
	}
}

func TestTraces_of_a_call_that_is_not_sampled_have_no_span_and_its_webhook_says_so(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			c, h := startTraced(t, stack, "OTEL_TRACES_SAMPLER", "parentbased_always_off")
			receiver := apptest.NewReceiver(t, nil)
			s := h.Supplier(t, "--webhook-url", receiver.URL+"/hooks/s3cret")
			const callers, sampled = "0000000000000000000000000000beef", "0000000000000000000000000000cafe"
			post := func(header ...string) (carried string) { // the traceparent of its webhook
				id := nextID()
				want(t, s.Do(t, http.MethodPost, requests, request(id, nil), header...), http.StatusCreated)
				wait.Until(t, "the webhook arrives", func() bool {
					calls := receiver.Calls() // a call may be repeated
					i := slices.IndexFunc(calls, func(c apptest.Call) bool {
						return c.Path == "/hooks/s3cret"+estimatesPath(id)
					})
					if i >= 0 {
						carried = calls[i].Header.Get("traceparent")
					}
					return i >= 0
				})
				return carried
			}
			if carried := post("traceparent", "00-"+callers+"-00000000000000aa-00"); !strings.Contains(carried, callers) ||
				!strings.HasSuffix(carried, "-00") {
				t.Errorf("the webhook carries %q and not the caller's trace", carried)
			}
			if carried := post(); len(carried) != 55 || !strings.HasSuffix(carried, "-00") {
				t.Errorf("the webhook carries %q, which does not say that nothing is recorded", carried)
			}
			if carried := post("traceparent", "00-"+sampled+"-00000000000000aa-01"); !strings.Contains(carried, sampled) ||
				!strings.HasSuffix(carried, "-01") {
				t.Errorf("the webhook carries %q", carried)
			}
			wait.Until(t, "the sampled call's webhooks are recorded",
				func() bool { return len(c.called("webhook attempt")) == 2 })
			for _, one := range c.called("webhook attempt") {
				shown := receiver.URL + "/REDACTED/api/material-requests/" // a receiver's path may hold a secret
				if one.attributes["destination"] != "own" && !strings.HasPrefix(one.attributes["url.full"], shown) ||
					strings.Contains(fmt.Sprint(one), "s3cret") {
					t.Errorf("an attempt's span is %+v", one)
				}
			}
			if text := openMetrics(t, h); !strings.Contains(text, `# {trace_id="`+sampled+`"}`) ||
				strings.Contains(text, callers) {
				t.Error("the durations' exemplars are not the sampled trace alone")
			}
			if traces := c.traces(); len(traces) != 1 || traces[0] != sampled {
				t.Errorf("recorded are %v", traces)
			}
		})
	}
}

func TestTraces_cost_nothing_where_no_collector_is_configured(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			receiver := apptest.NewReceiver(t, nil)
			s := h.Supplier(t, "--webhook-url", receiver.URL)
			want(t, s.Do(t, http.MethodPost, requests, request(nextID(), nil), "traceparent",
				"00-0000000000000000000000000000beef-00000000000000aa-01"), http.StatusCreated)
			wait.Until(t, "the webhook arrives", func() bool { return len(receiver.Calls()) >= 1 })
			if header, carried := receiver.Calls()[0].Header["Traceparent"]; carried {
				t.Errorf("the webhook carries traceparent %q", header)
			}
		})
	}
}

// openMetrics returns the api's metrics in the form that has exemplars.
func openMetrics(t *testing.T, h *apptest.Hub) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.APIs[0].AdminURL("/metrics"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
