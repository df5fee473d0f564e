package scoreboard

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// A requester's day has a number of units, 80 unless set, over all replicas: spending is one conditional upsert, so
// no unit is granted twice. A unit that was spent is gone, whatever becomes of the answer.

const spendTimeout = 5 * time.Second // of the database, to count or to be read

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
	now      func() time.Time
}

// NewQuotas reads the quotas of a database, whose days go by its clock now; local is this process's, for what lasts
// within it.
func NewQuotas(db *database.DB, now, local func() time.Time) *Quotas {
	st := &store{db: db}
	return &Quotas{store: st, settings: newSettings(st, local), now: now}
}

// standing returns the requester's quota now, without spending.
func (s *Quotas) standing(ctx context.Context, requester string) (quota, error) {
	item := spend{requester, Day(s.now())}
	q := quota{limit: s.settings.lastQuota(), reset: item.ends()}
	current, err := s.settings.current(ctx)
	if err != nil {
		return q, err
	}
	q.limit = current.dailyQuota
	q.used, err = s.store.used(ctx, item)
	return q, err
}

// take spends a unit, and returns the quota after it and whether it was granted; where it cannot be counted, the quota
// as it was known last. The callers of a process take turns: at the database each would hold a connection while it waits
// for the same row.
func (s *Service) take(ctx context.Context, requester string) (q quota, granted bool, err error) {
	item := s.unit(requester)
	s.turn.Lock()
	defer s.turn.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spendTimeout)
	defer cancel()
	current, err := s.settings.current(ctx)
	q = quota{limit: current.dailyQuota, reset: item.ends()}
	if err == nil {
		granted, q.used, err = s.store.spend(ctx, item, q.limit)
	}
	if err != nil {
		return s.lastSeen(item), false, fmt.Errorf("count scoreboard request: %w", err)
	}
	s.note(item, q.used, time.Time{})
	return q, granted, nil
}
