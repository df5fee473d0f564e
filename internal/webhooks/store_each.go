package webhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

const (
	newestFirst = "created_at DESC, id DESC"

	eachBatch  = 5000 // deliveries that one statement of each looks at
	readAtOnce = 500  // whole ones that one statement of it reads
)

// candidate is a delivery that a walk looks at, and whether the filter chooses it.
type candidate struct {
	id        string
	createdAt int64
	chosen    bool
}

// candidateColumns take the filter's arguments.
const candidateColumns = `id, created_at, (status = $1 OR $1 = '') AND updated_at <= $2 AND created_at >= $3
	AND (supplier_id = $4 OR $4 = '') AS chosen`

func (f Filter) args(until time.Time) []any {
	return []any{string(f.Status), until.UnixMicro(), max(0, f.Since.UnixMicro()), f.SupplierID}
}

func (c *candidate) places() []any { return []any{&c.id, &c.createdAt, &c.chosen} }

// direction is in which order a walk goes.
type direction struct {
	behind, order string
	start         candidate
}

var (
	upwards   = direction{behind: ">"}
	downwards = direction{"<", " DESC", candidate{id: "~", createdAt: math.MaxInt64}} // no id is behind a tilde
)

func anyTime() time.Time { return time.UnixMicro(math.MaxInt64) }

// candidates returns the next deliveries behind one and marks those that the filter chooses and that have had its
// status since the given time or longer: what is lost by the index of that, all others by the ids. So one statement
// looks at no more rows than it returns.
func (s *store) candidates(ctx context.Context, filter Filter, until time.Time, way direction, after candidate,
	limit int) ([]candidate, error) {
	walk := `CAST($5 AS bigint) >= 0 AND id %[1]s $6 ORDER BY id%[2]s`
	if filter.Status == Dead || filter.Status == Failed {
		walk = `status IN ('dead', 'failed') AND status = $1 AND created_at >= $3 AND created_at %[1]s= $5
			AND (created_at, id) %[1]s ($5, $6) ORDER BY created_at%[2]s, id%[2]s`
	}
	batch, err := database.Query(ctx, s.db.ReaderSQL(ctx), fmt.Sprintf(`SELECT `+candidateColumns+`
		FROM webhook_deliveries WHERE `+walk+` LIMIT %[3]d`, way.behind, way.order, limit),
		append(filter.args(until), after.createdAt, after.id), (*candidate).places)
	if err != nil {
		return nil, fmt.Errorf("choose webhook deliveries: %w", err)
	}
	return batch, nil
}

// batches hands over all that the filter can choose, batch by batch, and calls done with how many it has looked at.
func (s *store) batches(ctx context.Context, filter Filter, until time.Time, way direction, limit int, done func(int64),
	fn func([]candidate) error) error {
	looked := int64(0)
	for after := way.start; ; {
		batch, err := s.candidates(ctx, filter, until, way, after, limit)
		if err != nil || len(batch) == 0 {
			return err
		}
		after, looked = batch[len(batch)-1], looked+int64(len(batch))
		if err := fn(batch); err != nil {
			return err
		}
		done(looked)
	}
}

var errEnough = errors.New("as many as are wanted")

// each hands the chosen deliveries over one by one, at most limit of them; 0: all. It goes by an index, batch by batch:
// nothing is held here or in the database meanwhile. What is dead, failed, or pending and few comes newest first; all
// else as the requests came, the last first, and newest first within a batch: no index has everything by its time.
func (s *store) each(ctx context.Context, filter Filter, limit int, done func(int64), fn func(Delivery) error) error {
	handed := 0
	hand := func(batch []candidate) error {
		return s.eachOf(ctx, filter, batch, func(d Delivery) error {
			if err := fn(d); err != nil {
				return err
			}
			if handed++; handed == limit {
				return errEnough
			}
			return nil
		})
	}
	pending, all, err := s.fewPending(ctx, filter)
	switch {
	case err != nil:
	case all:
		err = hand(pending)
	default:
		err = s.batches(ctx, filter, anyTime(), downwards, eachBatch, done, hand)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// fewPending returns what is pending, where that is asked for, by the indexes of it, and whether that is all of it.
func (s *store) fewPending(ctx context.Context, filter Filter) (batch []candidate, all bool, err error) {
	if filter.Status != Pending {
		return nil, false, nil
	}
	batch, err = database.Query(ctx, s.db.ReaderSQL(ctx), fmt.Sprintf(`
		SELECT * FROM (SELECT %[1]s FROM webhook_deliveries
			WHERE status = 'pending' AND worker IS NULL ORDER BY destination, next_attempt_at LIMIT %[2]d) AS waiting
		UNION ALL SELECT * FROM (SELECT %[1]s FROM webhook_deliveries
			WHERE worker IS NOT NULL ORDER BY worker LIMIT %[2]d) AS attempted`, candidateColumns, eachBatch),
		filter.args(anyTime()), (*candidate).places)
	if err != nil {
		return nil, false, fmt.Errorf("choose webhook deliveries: %w", err)
	}
	return batch, len(batch) < eachBatch, nil
}

// eachOf hands over those of a batch that are chosen, newest first, as they are by now.
func (s *store) eachOf(ctx context.Context, filter Filter, batch []candidate, fn func(Delivery) error) error {
	batch = slices.DeleteFunc(batch, func(c candidate) bool { return !c.chosen })
	slices.SortFunc(batch, func(a, b candidate) int { // newest first
		return cmp.Or(cmp.Compare(b.createdAt, a.createdAt), strings.Compare(b.id, a.id))
	})
	for part := range slices.Chunk(batch, readAtOnce) {
		rows, err := s.byID(ctx, chosenIDs(part))
		if err != nil {
			return err
		}
		for _, row := range rows {
			if filter.Status != "" && row.Status != filter.Status { // it changed meanwhile
				continue
			}
			if err := fn(row.delivery()); err != nil {
				return err
			}
		}
	}
	return nil
}

// countChosen counts them as each goes through them.
func (s *store) countChosen(ctx context.Context, filter Filter, done func(int64)) (n int64, err error) {
	err = s.batches(ctx, filter, anyTime(), upwards, eachBatch, done, func(batch []candidate) error {
		n += int64(len(chosenIDs(batch)))
		return nil
	})
	return n, err
}
