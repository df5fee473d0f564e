package webhooks

import (
	"context"
	"slices"

	"github.com/supplyhub/supplyhub/internal/round"
)

// Each hands the deliveries that the filter chooses to fn, newest first among thousands, at most limit of them; 0: all,
// in constant memory and by short statements. It ends with fn's error. done is called with how many it has looked at.
func (d *Dispatcher) Each(ctx context.Context, filter Filter, limit int, done func(int64),
	fn func(Delivery) error) error {
	return d.store.each(ctx, filter, limit, done, fn)
}

// Count returns how many deliveries the filter chooses, by short statements. done is called with how many it has looked
// at.
func (d *Dispatcher) Count(ctx context.Context, filter Filter, done func(int64)) (int64, error) {
	return d.store.countChosen(ctx, filter, done)
}

// EachOf is Each among the deliveries of some requests; they are looked up by key.
func (d *Dispatcher) EachOf(ctx context.Context, requests []round.Round, filter Filter, limit int,
	fn func(Delivery) error) error {
	var all []Delivery
	for _, request := range requests {
		found, err := d.store.of(ctx, request)
		if err != nil {
			return err
		}
		all = append(all, slices.DeleteFunc(found, func(one Delivery) bool { return !filter.chooses(one) })...)
	}
	slices.SortStableFunc(all, func(a, b Delivery) int { return b.CreatedAt.Compare(a.CreatedAt) })
	if limit > 0 && len(all) > limit {
		all = all[:limit]
	}
	for _, one := range all {
		if err := fn(one); err != nil {
			return err
		}
	}
	return nil
}
