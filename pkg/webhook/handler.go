package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// DefaultMaxBody is how much of a call's body a Handler reads unless WithMaxBody says otherwise.
const DefaultMaxBody = 1 << 20

// bodyTime is how long a call's body may take to come, which the service waits for an answer too.
const bodyTime = 15 * time.Second

// busyRetry is when the sender may try again while another call with the same webhook-id is being handled.
const busyRetry = 5 * time.Second

// Option changes how a Handler works.
type Option func(*handler)

// WithStore remembers handled calls in store instead of in memory. Processes behind one address must share a store.
func WithStore(store Store) Option { return func(h *handler) { h.store = store } }

// WithMaxBody refuses bodies of more than n bytes.
func WithMaxBody(n int64) Option { return func(h *handler) { h.maxBody = n } }

// Handler returns a receiver for the service's webhook calls. It verifies each call against secrets (several while
// one is being rotated), decodes it and calls handle, once for each webhook-id that the store remembers, unless handle
// fails or the store cannot record that it succeeded; IDFrom returns that id. It serves any path:
// mount it where the webhook-url points.
//
// It answers 204 when handle returns nil, for a call that was handled before, and for events of other types than
// TypeEstimated, test calls included, which never reach handle. It answers 500 when handle returns an error, so that
// the service tries again on its schedule, and 503 while the same call is still being handled. 401, 400, 405 and 413
// are the answers to what is not a signed event.
//
// The service waits 15 seconds for an answer by default and then cancels the call, which ends handle's context:
// longer work belongs into a queue of the receiver's own. A body has as long to come. Handler panics without a secret:
// it could verify nothing.
func Handler(secrets []Secret, handle func(context.Context, Event) error, options ...Option) http.Handler {
	h := &handler{secrets: secrets, handle: handle, maxBody: DefaultMaxBody}
	for _, option := range options {
		option(h)
	}
	if !slices.ContainsFunc(secrets, func(s Secret) bool { return s.key != nil }) || handle == nil {
		panic("webhook: Handler needs a secret and a function")
	}
	if h.store == nil {
		h.store = NewMemoryStore(DefaultRemembered)
	}
	return h
}

type idKey struct{}

// IDFrom returns the webhook-id of the call that a Handler is handling, and "" outside of one.
func IDFrom(ctx context.Context) string {
	id, _ := ctx.Value(idKey{}).(string)
	return id
}

type handler struct {
	secrets []Secret
	handle  func(context.Context, Event) error
	store   Store
	maxBody int64
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(bodyTime)) // a test's recorder has none
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.maxBody))
	if err != nil {
		w.WriteHeader(statusOfRead(err))
		return
	}
	_ = connection.SetReadDeadline(time.Time{}) // otherwise it would end the context of work that takes longer
	id, err := Verify(r.Header, body, time.Now(), h.secrets...)
	if err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	event, err := decodeEvent(body)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	case event.Type != TypeEstimated:
		w.WriteHeader(http.StatusNoContent)
	default:
		h.once(context.WithValue(r.Context(), idKey{}, id), w, id, event)
	}
}

func statusOfRead(err error) int {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

// once claims the id, handles the event and records the outcome.
func (h *handler) once(ctx context.Context, w http.ResponseWriter, id string, event Event) {
	claim, err := h.store.Claim(ctx, id)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusInternalServerError)
	case claim == Handled:
		w.WriteHeader(http.StatusNoContent)
	case claim == Busy:
		w.Header().Set("Retry-After", strconv.Itoa(int(busyRetry/time.Second)))
		w.WriteHeader(http.StatusServiceUnavailable)
	case h.run(ctx, id, event) != nil:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// run releases the claim unless handle succeeded, also when handle panics, so that the next attempt is not refused.
func (h *handler) run(ctx context.Context, id string, event Event) error {
	handled := false
	settle := context.WithoutCancel(ctx) // the sender may have hung up; the outcome is recorded all the same
	defer func() {
		if !handled {
			_ = h.store.Release(settle, id) // a claim that cannot be released ends by itself
		}
	}()
	if err := h.handle(ctx, event); err != nil {
		return err
	}
	handled = true
	return h.store.Finish(settle, id)
}

func decodeEvent(body []byte) (Event, error) {
	var event Event
	if err := json.Unmarshal(body, &event); err != nil {
		// An event of another type may give the same names to other things.
		var other struct{ Type string }
		if json.Unmarshal(body, &other) == nil && other.Type != "" && other.Type != TypeEstimated {
			return Event{Type: other.Type}, nil
		}
		return Event{}, err
	}
	if event.Type == "" || event.Type == TypeEstimated && event.Data.RequestID == 0 && event.Timestamp.IsZero() {
		return Event{}, errNoEvent
	}
	return event, nil
}

var errNoEvent = errors.New("webhook: the body is not an event")
