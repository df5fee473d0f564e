package scoreboard

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
)

// A requester's day has a number of units, 80 unless set, over all replicas: spending is one conditional upsert, so
// no unit is granted twice. Callers that ask one process at the same moment spend together, and the first ones
// get what is left. A unit that was spent is gone, whatever becomes of the answer.

const (
	spendBatch   = 256
	spendTimeout = 5 * time.Second
)

// The requesters, distinguished by the parameter partner.
const (
	requesterA = "loop"
	requesterB = "partner_b"
)

// requesterOf reads the parameter: loop is A, anything else B.
func requesterOf(partner string) string {
	if partner == requesterA {
		return requesterA
	}
	return requesterB
}

// quota is what a requester has used and has left of a day.
type quota struct {
	limit, used int64
	reset       time.Time // the next midnight in São Paulo
}

// remaining returns what is left; a quota that was lowered leaves nothing, not less.
func (q quota) remaining() int64 { return max(q.limit-q.used, 0) }

// spend is one unit of a requester's day, which begins at this moment.
type spend struct {
	requester string
	day       time.Time
}

// ends returns the midnight in São Paulo at which the unit's day ends.
func (s spend) ends() time.Time { return DayAfter(s.day, 1) }

// Quotas reads what is left of the quotas; it is all of the scoreboard that a worker has.
type Quotas struct {
	store    *store
	settings *settings
	now      func() time.Time // the database's
	local    func() time.Time // this process's, for what lasts within it
	seen     sightings
}

// NewQuotas reads the quotas of a database, whose days go by its clock now; local is this process's.
func NewQuotas(db *database.DB, now, local func() time.Time) *Quotas {
	st := &store{db: db}
	return &Quotas{store: st, settings: newSettings(st, local), now: now, local: local}
}

// unit returns one unit of the requester's day.
func (s *Quotas) unit(requester string) spend { return spend{requester, Day(s.now())} }

// standing returns the requester's quota now, without spending.
func (s *Quotas) standing(ctx context.Context, requester string) (quota, error) {
	item := s.unit(requester)
	q := quota{limit: s.settings.lastQuota(), reset: item.ends()}
	current, err := s.settings.current(ctx)
	if err == nil {
		q.limit = current.dailyQuota
		q.used, err = s.store.used(ctx, item)
	}
	s.seen.note(item, q.used, s.local()) // a failure too: it is not tried more often than it would be read
	return q, err
}

// grant is what became of a spent unit, and the quota after it.
type grant struct {
	quota
	granted bool
}

// take spends a unit; one that cannot be counted comes with the quota as it was known last. Units are counted
// atomically over all replicas; those taken at the same moment in this process share a transaction.
func (s *Service) take(ctx context.Context, requester string) (grant, error) {
	item := s.unit(requester)
	result, err := s.spending.Do(ctx, item)
	if err != nil {
		return grant{quota: s.lastSeen(item)}, fmt.Errorf("count scoreboard request: %w", err)
	}
	return result, nil
}

// flushSpending spends for a batch of callers; those who come first get what is left. Each requester's units are
// committed by themselves: when another transaction is in the way of one's, only those are tried again. The others'
// would be spent twice.
func (s *Service) flushSpending(_ context.Context, items []spend) ([]grant, error) {
	ctx, cancel := context.WithTimeout(context.Background(), spendTimeout)
	defer cancel()
	current, err := s.settings.current(ctx)
	if err != nil {
		return nil, err
	}
	places := map[spend][]int{} // of the callers who ask for the same unit, in their order
	for i, item := range items {
		places[item] = append(places[item], i)
	}
	results := make([]grant, len(items))
	var left groupcommit.Undecided
	for item, callers := range places {
		granted, used, err := s.store.spend(ctx, item, int64(len(callers)), current.dailyQuota)
		if err != nil && len(items) > 1 && !errs.IsUnavailable(err) { // as groupcommit flushes alone
			left = append(left, callers...)
			continue
		}
		if err != nil {
			return nil, err
		}
		s.seen.note(item, used, time.Time{})
		for n, i := range callers {
			results[i].granted = int64(n) < granted
			results[i].quota = quota{current.dailyQuota, used - max(granted-int64(n)-1, 0), item.ends()}
		}
	}
	if len(left) > 0 {
		return results, left
	}
	return results, nil
}
