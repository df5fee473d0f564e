// Package operator has what operators' commands, the console and retention do with material requests: list and show,
// verify and delete them. It has a store of its own over the tables of package materials.
package operator

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Requests are the requests' own rules.
type Requests interface {
	Find(ctx context.Context, supplierID string, id int64) (materials.Record, error)
	Reopen(ctx context.Context, supplierID string, id int64) error
	Overviews(ctx context.Context, filter materials.Filter, behind int64, limit int) (
		page []materials.Overview, next int64, err error)
	OfID(ctx context.Context, id int64, limit int) ([]materials.Overview, error)
	Traced(ctx context.Context, traceID string, limit int) ([]materials.Overview, error)
}

// Events are the events of requests.
type Events interface {
	// End makes dead, for the reason, all that has been pending for suppliers' receivers since before the given time.
	End(ctx context.Context, before time.Time, reason string) error
	// Hold keeps what is sent for the requests in the rounds up to a number as it is until the caller's transaction ends,
	// and returns those of the requests for which nothing of that is pending.
	Hold(ctx context.Context, requests []round.Round, upTo int64) (over []round.Round, err error)
	// Forget deletes, in the transaction of Hold, the events of these rounds of the requests that it returned, with their
	// deliveries, and returns how many events they were.
	Forget(ctx context.Context, requests []round.Round, upTo int64) (events int64, err error)
	// BodyOf returns the SQL expression of the body of a round's event; null: it is not stored. It is given those of the
	// supplier's id, the request's uid and the round's number.
	BodyOf(supplier, uid, number string) string
}

// Partitions are those that events are stored in.
type Partitions interface {
	// Partitions returns those that requests were or are of, the oldest first.
	Partitions(ctx context.Context) ([]round.Partition, error)
	// Unfinished reports whether something of the partition is still to be delivered.
	Unfinished(ctx context.Context, p round.Partition) (bool, error)
	// Keep notes why the partition is not dropped.
	Keep(ctx context.Context, p round.Partition, why string) error
	// Drop drops a partition of which no request is any more, and returns why it did not; empty: it is gone.
	Drop(ctx context.Context, p round.Partition) (why string, err error)
}

// Deps is what the package is built from.
type Deps struct {
	DB         *database.DB
	Now        func() time.Time
	Requests   Requests
	Events     Events
	Partitions Partitions // for Expire
}

// Service implements the operator's part, with the requests' own rules. It is safe for concurrent use.
type Service struct {
	Requests
	deps  Deps
	store *store
}

// New returns a service over the tables of material requests.
func New(deps Deps) *Service { return &Service{deps.Requests, deps, &store{deps.DB, deps.Events}} }

// eachPage is how many requests one statement of Each returns.
const eachPage = 1000

// Each hands the requests that the filter chooses to fn, newest first, at most limit of them; 0: all, in constant
// memory and by short statements. It ends with fn's error.
func (s *Service) Each(ctx context.Context, filter materials.Filter, limit int,
	fn func(materials.Overview) error) error {
	handed := 0
	for behind := int64(materials.Newest); behind > 0; {
		page, next, err := s.Overviews(ctx, filter, behind, eachPage)
		if err != nil {
			return err
		}
		for _, o := range page {
			if err := fn(o); err != nil {
				return err
			}
			if handed++; handed == limit {
				return nil
			}
		}
		behind = next
	}
	return nil
}

// Rounds returns the rounds that the requests of an id are in; every supplier numbers its own, and only one's is meant
// where one is named. errs.NotFound: there is none.
func (s *Service) Rounds(ctx context.Context, supplierID string, id int64) (rounds []round.Round, err error) {
	found, err := s.OfID(ctx, id, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	for _, o := range found {
		if supplierID == "" || supplierID == o.SupplierID {
			rounds = append(rounds, round.Round{SupplierID: o.SupplierID, RequestID: o.ID, UID: o.UID, Number: o.Round})
		}
	}
	if len(rounds) == 0 {
		of := ""
		if supplierID != "" {
			of = " of " + supplierID
		}
		return nil, errs.New(errs.NotFound, fmt.Sprintf("There is no request %d%s.", id, of))
	}
	return rounds, nil
}

// Show returns a request with the round that it is in and so many of the rounds before it, oldest first. errs.NotFound:
// there is none.
func (s *Service) Show(ctx context.Context, supplierID string, requestID int64, before int) (
	materials.Record, []materials.RoundOverview, round.Round, error) {
	record, err := s.Find(ctx, supplierID, requestID)
	if err != nil {
		return record, nil, round.Round{}, err
	}
	current := round.Round{SupplierID: supplierID, RequestID: requestID, UID: record.UID, Number: record.Round}
	rounds, err := s.store.roundsOf(ctx, current, before)
	return record, rounds, current, err
}
