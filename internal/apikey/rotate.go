package apikey

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
)

const longestOverlap = 90 * 24 * time.Hour

// Stored is what is kept of a key.
type Stored struct {
	Hash      [sha256.Size]byte
	Last4     string // what an operator may see of it
	CreatedAt time.Time
}

// Keys are those of one holder.
type Keys interface {
	// Insert stores a key.
	Insert(ctx context.Context, key Stored) error

	// Expire lets every key of the holder work until the given time at most.
	Expire(ctx context.Context, until time.Time) error
}

// CheckOverlap refuses an overlap that is not from 0 to 90 days. Errors: errs.Invalid.
func CheckOverlap(overlap time.Duration) error {
	if overlap < 0 || overlap > longestOverlap {
		return errs.InvalidInput("The overlap is not valid.",
			errs.At("/overlap", fmt.Sprintf("must be from 0s to %s", longestOverlap)))
	}
	return nil
}

// Add makes a key and stores it.
func (f Format) Add(ctx context.Context, keys Keys, now time.Time) (string, error) {
	key := f.Generate()
	if err := keys.Insert(ctx, Stored{Hash: f.Hash(key), Last4: key[len(key)-keyLastShown:], CreatedAt: now}); err != nil {
		return "", fmt.Errorf("store API key: %w", err)
	}
	return key, nil
}

// Rotate lets the former keys work for the overlap, which CheckOverlap has checked, and adds a new one. Both happen in
// the caller's transaction.
func (f Format) Rotate(ctx context.Context, keys Keys, now time.Time, overlap time.Duration) (string, error) {
	if err := keys.Expire(ctx, end(now, overlap)); err != nil {
		return "", fmt.Errorf("expire former API keys: %w", err)
	}
	return f.Add(ctx, keys, now)
}

// end returns when a rotated key stops working. Without an overlap that is before all times: two processes' clocks may
// differ by the milliseconds that the database's time takes to them.
func end(now time.Time, overlap time.Duration) time.Time {
	if overlap == 0 {
		return time.Unix(0, 0)
	}
	return now.Add(overlap)
}
