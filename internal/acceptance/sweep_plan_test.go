package acceptance

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

// cutSilence is how long a silenced connection stays open: longer than a worker's lease and a suspicion of the server.
const cutSilence = 2500 * time.Millisecond

// sweepPlan says at which ends of transactions connections are lost: before and after, in turn, of each kind.
type sweepPlan struct {
	want    int    // cuts of each kind, before and after each
	only    string // part of the kinds' names
	silence time.Duration

	mu    sync.Mutex
	on    bool
	kinds map[string]*kindCuts
	wrote map[string]bool // by whatever transaction
	last  time.Time       // that a connection was lost

	nextSilence time.Time
}

// kindCuts is what became of the ends of one kind.
type kindCuts struct{ seen, before, after, silent int }

func newSweepPlan(want int, only string) *sweepPlan {
	return &sweepPlan{want: want, only: only, silence: cutSilence, kinds: map[string]*kindCuts{}, wrote: map[string]bool{}}
}

// at decides about one end. Of three one succeeds, so that the load goes on; of a kind that was cut often enough one of
// ten does not, for what only a lost COMMIT makes necessary.
func (p *sweepPlan) at(kind string) *apptest.Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.kinds[kind]
	if k == nil {
		k = &kindCuts{}
		p.kinds[kind] = k
	}
	k.seen++
	if enough := k.after >= p.want; !p.on || enough && k.seen%10 != 0 || !enough && k.seen%3 == 0 ||
		!strings.Contains(kind, p.only) {
		return nil
	}
	cut := &apptest.Cut{After: k.before > k.after}
	if k.before%5 == 1 && p.silence > 0 && time.Since(p.nextSilence) > 0 { // one of five, few at a time: they hold locks
		cut.Silent = p.silence
		p.nextSilence = time.Now().Add(p.silence / 4)
		k.silent++
	}
	if cut.After {
		k.after++
	} else {
		k.before++
	}
	p.last = time.Now().Add(cut.Silent)
	return cut
}

// ServeHTTP answers a process whose database has no connections to lose.
func (p *sweepPlan) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch cut := p.at(r.FormValue("kind")); {
	case cut == nil:
	case cut.After:
		w.Header().Set("Lost", "after")
	default:
		w.Header().Set("Lost", "before")
	}
}

func (p *sweepPlan) note(kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrote[kind] = true
}

func (p *sweepPlan) written(kind string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wrote[kind]
}

// missing lists which of the kinds, or of those that came up, lack cuts.
func (p *sweepPlan) missing(wanted ...string) (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted = slices.AppendSeq(wanted, maps.Keys(p.kinds))
	slices.Sort(wanted)
	for _, kind := range slices.Compact(wanted) {
		k := p.kinds[kind]
		switch {
		case !strings.Contains(kind, p.only):
		case k == nil:
			list = append(list, kind+": never came up")
		case k.after < p.want:
			list = append(list, fmt.Sprintf("%s: came up %d times, cut %d times before and %d after", kind, k.seen, k.before,
				k.after))
		}
	}
	return list
}

// begin has connections lost from now on.
func (p *sweepPlan) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on, p.kinds = true, map[string]*kindCuts{}
}

// end lets everything pass and returns when the last connection was lost.
func (p *sweepPlan) end() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = false
	return p.last
}

func (p *sweepPlan) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(p.kinds)) {
		k := p.kinds[kind]
		fmt.Fprintf(&b, "%-44s %6d seen  %3d cut before  %3d after  %3d of them silent\n", kind, k.seen, k.before, k.after,
			k.silent)
	}
	return b.String()
}
