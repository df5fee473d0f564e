package webhooks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	handoverMost   = 256 << 10       // bytes of jobs in one message
	handoverAge    = time.Second     // an older one is not taken: it may have been given back
	handoverQueue  = 1024            // messages that wait to be taken
	handoverHeader = "Handover-Time" // Unix seconds in the message's signature
)

// Peers carries messages between workers, fire and forget. What is lost is found by the worker that it was for.
type Peers interface {
	// Connected reports whether messages can be sent right now.
	Connected() bool
	// Send reports whether the message may arrive.
	Send(worker int64, message []byte) bool
	// Listen has take called with each message for the worker until stop; take must not block.
	Listen(worker int64, take func(message []byte)) (stop func(), err error)
}

// handOver sends those first attempts that were begun in other workers' names to them.
func (d *Dispatcher) handOver(deliveries []newDelivery) {
	messages, origin := map[int64][]byte{}, d.lease.worker()
	send := func(worker int64) {
		if message := messages[worker]; len(message) > 0 {
			d.deps.Peers.Send(worker, d.sealed(message))
		}
		delete(messages, worker)
	}
	for _, delivery := range deliveries {
		if !delivery.handOver {
			continue
		}
		worker := delivery.worker
		if len(messages[worker])+len(delivery.body) > handoverMost {
			send(worker)
		}
		delivery.origin, delivery.seen = origin, delivery.target.digest()
		messages[worker] = appendJob(messages[worker], delivery.job)
	}
	for worker := range messages {
		send(worker)
	}
}

// sealed signs a message with the service's own secret: who can merely publish must not have anything signed for a
// supplier.
func (d *Dispatcher) sealed(jobs []byte) []byte {
	now := d.deps.Now()
	signature := webhook.Sign(handoverHeader, now, jobs, d.deps.OwnSecrets[0])
	message := binary.AppendVarint(nil, now.Unix())
	return append(appendText(message, signature), jobs...)
}

// unsealed returns the jobs of a message that another worker sealed.
func (d *Dispatcher) unsealed(message []byte) ([]byte, error) {
	at, n := binary.Varint(message)
	if n <= 0 {
		return nil, errHandover
	}
	signature, jobs, err := cutText(message[n:])
	if err != nil {
		return nil, err
	}
	h := http.Header{}
	h.Set(webhook.HeaderID, handoverHeader)
	h.Set(webhook.HeaderTimestamp, strconv.FormatInt(at, 10))
	h.Set(webhook.HeaderSignature, signature)
	if _, err := webhook.Verify(h, jobs, d.deps.Now(), d.deps.OwnSecrets...); err != nil {
		return nil, errHandover
	}
	return jobs, nil
}

var errHandover = errors.New("not a message of another worker")

// seenMark begins a job that ends with what its sender saw of the receiver; workers of the version before send jobs
// without both.
const seenMark = -4

func appendJob(message []byte, j job) []byte {
	for _, n := range []int64{seenMark, j.origin, j.worker, j.begun.UnixMicro(), j.round.RequestID, j.round.UID,
		j.round.Number} {
		message = binary.AppendVarint(message, n)
	}
	for _, text := range []string{j.id, j.destination, j.round.SupplierID, j.traceID, j.traceParent, string(j.body),
		j.seen} {
		message = appendText(message, text)
	}
	return message
}

func cutJob(message []byte) (j job, rest []byte, err error) {
	var micros int64
	var body string
	texts := []*string{&j.id, &j.destination, &j.round.SupplierID, &j.traceID, &j.traceParent, &body}
	if mark, n := binary.Varint(message); n > 0 && mark == seenMark {
		message, texts = message[n:], append(texts, &j.seen)
	}
	for _, to := range []*int64{&j.origin, &j.worker, &micros, &j.round.RequestID, &j.round.UID, &j.round.Number} {
		value, n := binary.Varint(message)
		if n <= 0 {
			return j, nil, errHandover
		}
		*to, message = value, message[n:]
	}
	for _, to := range texts {
		if *to, message, err = cutText(message); err != nil {
			return j, nil, err
		}
	}
	j.begun, j.body, j.number, j.series = time.UnixMicro(micros), []byte(body), 1, 1
	return j, message, nil
}

func appendText(message []byte, text string) []byte {
	return append(binary.AppendUvarint(message, uint64(len(text))), text...)
}

func cutText(message []byte) (text string, rest []byte, err error) {
	length, n := binary.Uvarint(message)
	if n <= 0 || length > uint64(len(message)-n) {
		return "", nil, errHandover
	}
	end := n + int(length)
	return string(message[n:end]), message[end:], nil
}

// listen takes what other workers hand over to this one under its new id.
func (d *Dispatcher) listen(worker int64) error {
	d.stopListening()
	if d.deps.Peers == nil {
		return nil
	}
	messages := make(chan []byte, handoverQueue)
	unlisten, err := d.deps.Peers.Listen(worker, func(message []byte) {
		select {
		case messages <- message:
		default: // returnStrays finds them
		}
	})
	if err != nil {
		return fmt.Errorf("listen to other workers: %w", err)
	}
	ended := make(chan struct{})
	d.unlisten = func() { unlisten(); close(ended) }
	go func() {
		for {
			select {
			case message := <-messages:
				d.takeMessage(message)
			case <-ended:
				return
			}
		}
	}()
	return nil
}

func (d *Dispatcher) stopListening() {
	if d.unlisten != nil {
		d.unlisten()
		d.unlisten = nil
	}
}

func (d *Dispatcher) takeMessage(message []byte) {
	jobs, err := d.unsealed(message)
	if worker, e, ok := cutEnded(jobs); ok && err == nil {
		d.flow.refuse(e.full)
		d.flow.release(worker, e.n)
		return
	}
	if news, ok := cutPauseNews(jobs); ok && err == nil {
		d.hear(news)
		return
	}
	var taken []job
	for err == nil && len(jobs) > 0 {
		var j job
		if j, jobs, err = cutJob(jobs); err == nil && j.worker == d.lease.worker() &&
			d.deps.Now().Sub(j.begun) < handoverAge {
			taken = append(taken, j)
		}
	}
	if err != nil {
		d.deps.Log.Warn("a message of another worker is dropped", "error", err)
		return
	}
	d.takeJobs(taken)
}

// takeJobs sends what was handed over, or gives it back: it is begun in this worker's name.
func (d *Dispatcher) takeJobs(jobs []job) {
	ctx, cancel := context.WithTimeout(d.writing, leaseLife)
	defer cancel()
	receivers, err := d.receivers.seen(ctx, jobs)
	var back []job
	for _, j := range jobs {
		d.hold(j)
		j.target = receivers[j.destination]
		permit, admitted := dispatch.Permit[job]{}, false
		if err == nil && j.target.usable() && d.ownership.owns(j.destination) && !d.pauses.heard(j.destination) {
			permit, admitted = d.scheduler.Admit(d.destination(j))
		}
		if admitted {
			permit.Send(j)
		} else {
			d.flow.refused(j.origin, j.destination)
			back = append(back, j)
		}
	}
	if len(back) > 0 {
		go d.putBack(back)
	}
}

// endedMark begins a message that says how many of its receiver's attempts have ended, and of which suppliers it sent
// too many; no job begins with it.
const endedMark = -1

// reportEnded reports to the other workers how many of the attempts that they handed over have ended.
func (d *Dispatcher) reportEnded() {
	for worker, e := range d.flow.takeEnded() {
		d.deps.Peers.Send(worker, d.sealed(e.message(d.lease.worker())))
	}
}

func (e ended) message(worker int64) []byte {
	message := binary.AppendVarint(nil, endedMark)
	message = binary.AppendVarint(binary.AppendVarint(message, worker), int64(e.n))
	for _, supplierID := range e.full {
		message = appendText(message, supplierID)
	}
	return message
}

func cutEnded(message []byte) (worker int64, e ended, ok bool) {
	mark, used := binary.Varint(message)
	if used <= 0 || mark != endedMark {
		return 0, e, false
	}
	message = message[used:]
	if worker, used = binary.Varint(message); used <= 0 {
		return 0, e, false
	}
	message = message[used:]
	count, used := binary.Varint(message)
	if used <= 0 {
		return 0, e, false
	}
	e.n, message = int(count), message[used:]
	for len(message) > 0 {
		supplierID, rest, err := cutText(message)
		if err != nil {
			return 0, e, false
		}
		e.full, message = append(e.full, supplierID), rest
	}
	return worker, e, true
}

// flowLimit returns how many attempts another worker may have of this one's: all workers' together fill half of its
// queue. Of that the first worker, which takes most of the work, has a half.
func (d *Dispatcher) flowLimit() int {
	const least = 16
	others, half := d.ownership.others(), 9*max(d.deps.Concurrency, 1)/2
	switch {
	case others == 0:
		return addBatch
	case others == 1:
		return max(least, half)
	case d.Behind() == 0: // the first
		return max(least, half/2)
	default:
		return max(least, half/2/(others-1))
	}
}

// destination returns where a job goes, as the scheduler wants to know it.
func (d *Dispatcher) destination(j job) dispatch.Destination {
	if j.destination == OwnEndpoint {
		return dispatch.Destination{Name: OwnEndpoint}
	}
	return dispatch.Destination{Name: j.destination, Limit: max(j.target.Concurrency, 1)}
}

// mayHandOver reports whether a first attempt may be begun in another worker's name.
func (d *Dispatcher) mayHandOver(j job, owner int64) bool {
	return d.deps.Peers != nil && d.deps.Peers.Connected() && owner != dispatch.NoOwner && len(j.body) < handoverMost
}
