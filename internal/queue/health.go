package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Why the queue does not work is kept as a set of troubles, one for each thing that can fail by itself. Each logs
// when it begins, now and then while it lasts, and when it is over; Health returns the one that explains the others,
// in words that say what an operator can do.

const (
	noteEvery = time.Minute      // a reason that stays is repeated in the log
	noteOther = 10 * time.Second // another one is logged: some differ in a port's number each time
	unreadFor = 5 * time.Second  // messages may not be readable for so long
	deniedFor = time.Minute      // a denied permission is a reason; a call made all the time is denied again before
)

// The reasons until a first attempt has ended.
var (
	errNotConnected = errors.New("no NATS server was reached yet")
	errNotLooked    = errors.New("the stream was not looked at yet")
)

// trouble is why something cannot be made, for the log and for /readyz.
type trouble struct {
	what string
	log  *slog.Logger

	mu    sync.Mutex
	err   error
	at    time.Time // of the reason
	begun time.Time // of what setAfter was given
	noted time.Time
	text  string // of the reason that was noted last
}

// set keeps the reason and logs the first at once.
func (t *trouble) set(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep(err)
}

// setAfter is set for what has lasted for d.
func (t *trouble) setAfter(d time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun.IsZero() {
		t.begun = time.Now()
	}
	if time.Since(t.begun) >= d {
		t.keep(err)
	}
}

func (t *trouble) keep(err error) {
	t.err, t.at = err, time.Now()
	text, since := err.Error(), time.Since(t.noted)
	if since >= noteEvery || text != t.text && since >= noteOther {
		t.log.Warn(t.what, "error", text)
		t.text, t.noted = text, time.Now()
	}
}

// clear ends the trouble and logs that, if it had begun.
func (t *trouble) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err, t.noted, t.begun = nil, time.Time{}, time.Time{}
}

// reason returns why; nil: there is no trouble.
func (t *trouble) reason() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// reasonOfLast returns the reason when it was given within the last d.
func (t *trouble) reasonOfLast(d time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.at) > d {
		return nil
	}
	return t.err
}

// Health returns why messages do not travel: no server is reached, the user lacks a permission, or the stream cannot be
// made, read or written.
func (q *Queue) Health() error {
	if !q.Connected() {
		return fmt.Errorf("not connected: %w", cmp.Or(q.link.reason(), errNotConnected))
	}
	if reason := cmp.Or(q.lacking(), q.store.reason()); reason != nil {
		return reason
	}
	if !q.ours.Load() {
		return errNotLooked
	}
	return cmp.Or(q.refused.reason(), q.unread.reason())
}

// unlinked keeps why a connection ended or was not made. A server that refuses a login closes the connection too: that
// is no reason then.
func (q *Queue) unlinked(err error) {
	if err != nil && (refusesLogin(err) || !refusesLogin(q.link.reasonOfLast(deniedFor))) {
		q.link.set(err)
	}
}

// refusesLogin reports whether a server knows the user or its password not, or not any longer.
func refusesLogin(err error) bool {
	return slices.ContainsFunc([]error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked,
		nats.ErrAccountAuthExpired}, func(refusal error) bool { return errors.Is(err, refusal) })
}

// deny keeps and logs what the server denied. A subscription is tried once a connection, all else again and again.
func (q *Queue) deny(err error) {
	if strings.Contains(err.Error(), "Subscription to") {
		q.deaf.set(err)
		return
	}
	q.rights.set(err)
}

// lacking returns the permission that the server denied lately. NATS does not answer what it denies, so that everything
// else that fails then says nothing but a timeout.
func (q *Queue) lacking() error {
	if denied := cmp.Or(q.deaf.reason(), q.rights.reasonOfLast(deniedFor)); denied != nil {
		return fmt.Errorf("the NATS user lacks a permission: %w", denied)
	}
	return nil
}

// explain returns in an operator's words why the stream could not be made or read.
func (q *Queue) explain(err error) error {
	const insufficientStorage, replicasBeyondNodes, subjectsOverlap, noPeers, noLeader = 10047, 10074, 10065, 10005, 10008
	api, _ := errors.AsType[*jetstream.APIError](err)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("JetStream is not enabled on the NATS server or for this account "+
			"(or its cluster has no leader): %w", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		if denied := q.lacking(); denied != nil {
			return denied
		}
		return fmt.Errorf("JetStream does not answer, the cluster may have no quorum: %w", err)
	case errors.Is(err, jetstream.ErrNoHeartbeat):
		return fmt.Errorf("the messages of the stream %s do not come: %w", q.cfg.Stream, err)
	case errors.Is(err, jetstream.ErrMaximumConsumersLimit):
		return fmt.Errorf("the NATS account allows too few consumers, each worker makes one: %w", err)
	case api == nil:
		return err
	case api.ErrorCode == noLeader:
		return fmt.Errorf("JetStream has no leader, its cluster may have no quorum: %w", err)
	case api.ErrorCode == insufficientStorage:
		return fmt.Errorf("JetStream has less storage than NATS_MAX_BYTES (%d): %w", q.cfg.MaxBytes, err)
	case api.ErrorCode == replicasBeyondNodes, api.ErrorCode == noPeers:
		return fmt.Errorf("NATS has too few servers for NATS_REPLICAS=%d: %w", q.cfg.Replicas, err)
	case api.ErrorCode == subjectsOverlap:
		return fmt.Errorf("another stream has the subjects %s: %w", q.cfg.subjects(), err)
	default:
		return err
	}
}
