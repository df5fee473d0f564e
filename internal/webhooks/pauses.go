package webhooks

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/dispatch"
)

// pauses are the receivers that this worker has heard are paused. While storeTimeout lasts it begins nothing for them,
// as other workers may hand over what they began in transactions older than the pause; later ones know of it.
type pauses struct {
	mu    sync.Mutex
	until map[string]time.Time // monotonic
}

// begin takes a pause in.
func (p *pauses) begin(supplierID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil {
		p.until = map[string]time.Time{}
	}
	for id, until := range p.until {
		if time.Now().After(until) {
			delete(p.until, id)
		}
	}
	p.until[supplierID] = time.Now().Add(storeTimeout)
}

func (p *pauses) end(supplierID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.until, supplierID)
}

// heard reports whether the supplier's receiver was paused a moment ago.
func (p *pauses) heard(supplierID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, known := p.until[supplierID]
	return known && time.Now().Before(until)
}

// pauseNews says that a supplier's receiver is paused now, or no more.
type pauseNews struct {
	supplierID string
	paused     bool
}

// announce has the worker that owns the supplier hear the news; without them it finds out when it next asks the
// database.
func (d *Dispatcher) announce(ctx context.Context, news pauseNews) {
	d.hear(news)
	if d.deps.Peers == nil || len(d.deps.OwnSecrets) == 0 {
		return
	}
	owner, err := d.store.owner(ctx, dispatch.ShardOf(news.supplierID))
	if err != nil {
		d.deps.Log.WarnContext(ctx, "the supplier's worker does not hear at once of a pause or its end", "error", err)
		return
	}
	if owner != dispatch.NoOwner {
		d.deps.Peers.Send(owner, d.sealed(news.message()))
	}
}

// hear acts on the news.
func (d *Dispatcher) hear(news pauseNews) {
	if !news.paused {
		d.pauses.end(news.supplierID)
		d.Wake()
		return
	}
	d.pauses.begin(news.supplierID)
	d.scheduler.GiveBack(news.supplierID)
}

// pausedMark and resumedMark begin messages about a pause; no job begins with them.
const (
	pausedMark  = -2
	resumedMark = -3
)

func (n pauseNews) message() []byte {
	mark := int64(resumedMark)
	if n.paused {
		mark = pausedMark
	}
	return appendText(binary.AppendVarint(nil, mark), n.supplierID)
}

func cutPauseNews(message []byte) (news pauseNews, ok bool) {
	mark, used := binary.Varint(message)
	if used <= 0 || mark != pausedMark && mark != resumedMark {
		return pauseNews{}, false
	}
	supplierID, _, err := cutText(message[used:])
	return pauseNews{supplierID, mark == pausedMark}, err == nil
}
