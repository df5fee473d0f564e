package webhooks

import "context"

// Each hands the deliveries that the filter chooses to fn, newest first, at most limit of them; 0: all, in constant
// memory. It ends with fn's error.
func (d *Dispatcher) Each(ctx context.Context, filter Filter, limit int, fn func(Delivery) error) error {
	return d.store.each(ctx, filter, limit, fn)
}

// Count returns how many deliveries the filter chooses.
func (d *Dispatcher) Count(ctx context.Context, filter Filter) (int64, error) {
	return d.store.countChosen(ctx, filter)
}
