package tracker

import (
	"cmp"
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// Reading is shared by client, whichever store the page comes from: as many reads are made at once as there are
// connections for it, one client's at most on half of them, and clients who wait take turns. A page of a view that was
// made here is quick, so a client's own calls wait for each other. How long a view of others takes is not known: it is
// read on a quarter of the connections, and its calls wait for nothing.
//
//  1. A call is one of its client's calls in hand, or is refused at once.
//  2. It waits for one of its client's places, as long as one read may take. With that it looks at the view, and reads
//     its page if the view was made here.
//  3. A page of a view of others takes one of its client's places among these, or is refused at once.
//  4. The answer is sent without any of them: who reads it slowly holds no place.

const (
	shareWait   = time.Second // Retry-After of a share that is used up
	callsInHand = 512         // of all clients: one alone has half of them
)

// turns is what clients read with. Of each there is one more than can be used: one stays free.
type turns struct{ calls, places, others *httpapi.Shares }

func newTurns(db *database.DB) turns {
	return turns{httpapi.NewShares(callsInHand), httpapi.NewShares(int64(db.ReadersAtOnce()) + 1),
		httpapi.NewShares(int64(db.OthersAtOnce()) + 1)}
}

// in runs fn when it is the client's turn to read. Errors: errs.Unavailable when it was not in time.
func (t turns) in(ctx context.Context, client string, fn func() error) error {
	waiting, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	if err := t.places.Wait(waiting, client, 1); err != nil {
		return cmp.Or(ctx.Err(), beyondShare())
	}
	defer t.places.Release(client, 1)
	return fn()
}

// share runs fn in one of the client's places, or refuses it at once: errs.Unavailable.
func share(places *httpapi.Shares, client string, fn func() error) error {
	if !places.Take(client, 1) {
		return beyondShare()
	}
	defer places.Release(client, 1)
	return fn()
}

// beyondShare answers a call beyond its client's share.
func beyondShare() error {
	return errs.NewUnavailable("As many pages are read for this client as may be at once.", shareWait, nil)
}
