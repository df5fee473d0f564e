package database

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// silentTime is for how long a host that was silent is asked last.
const silentTime = time.Minute

// hosts remembers which servers were silent. A new connection asks an address's hosts in order: each would wait for one
// that hangs, and its caller with it.
type hosts struct {
	mu     sync.Mutex
	found  map[string][]string  // the IP addresses of a host, as last looked up
	silent map[string]time.Time // when a network address was silent
}

// lookup remembers what a lookup finds.
func (h *hosts) lookup(look pgconn.LookupFunc) pgconn.LookupFunc {
	return func(ctx context.Context, host string) ([]string, error) {
		found, err := look(ctx, host)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.found[host] = found
		return found, err
	}
}

// wasSilent notes that nothing came from a network address.
func (h *hosts) wasSilent(address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget()
	h.silent[address] = time.Now()
}

// silentAt returns when one of a host's addresses was silent last; zero when none of them was.
func (h *hosts) silentAt(host *pgconn.FallbackConfig) (last time.Time) {
	for _, ip := range slices.Concat(h.found[host.Host], []string{host.Host}) {
		_, address := pgconn.NetworkAddress(ip, host.Port)
		if at := h.silent[address]; at.After(last) {
			last = at
		}
	}
	return last
}

// order puts hosts that were silent behind the others.
func (h *hosts) order(cfg *pgx.ConnConfig) {
	first := pgconn.FallbackConfig{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}
	all := slices.Concat([]*pgconn.FallbackConfig{&first}, cfg.Fallbacks)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget()
	slices.SortStableFunc(all, func(a, b *pgconn.FallbackConfig) int { return h.silentAt(a).Compare(h.silentAt(b)) })
	cfg.Host, cfg.Port, cfg.TLSConfig, cfg.Fallbacks = all[0].Host, all[0].Port, all[0].TLSConfig, all[1:]
}

// choose lets a reader take a host that it does not prefer while another one is silent: before it does, pgx asks all of
// them, for each new connection.
func (h *hosts) choose(validate pgconn.ValidateConnectFunc) pgconn.ValidateConnectFunc {
	return func(ctx context.Context, conn *pgconn.PgConn) error {
		if validate == nil {
			return nil
		}
		err := validate(ctx, conn)
		if _, other := errors.AsType[*pgconn.NotPreferredError](err); other && h.someSilent() {
			return nil
		}
		return err
	}
}

// someSilent reports whether a host was silent within silentTime.
func (h *hosts) someSilent() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget()
	return len(h.silent) > 0
}

// forget ends silences that are over.
func (h *hosts) forget() {
	maps.DeleteFunc(h.silent, func(_ string, at time.Time) bool { return time.Since(at) > silentTime })
}
