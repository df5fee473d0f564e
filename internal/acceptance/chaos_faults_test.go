package acceptance

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// lostEnds loses the connection at one of ten ends of transactions, some of them after a silence.
type lostEnds struct {
	on, after atomic.Bool
	n         atomic.Int64
}

func (l *lostEnds) start(after bool) {
	l.after.Store(after)
	l.on.Store(true)
}

func (l *lostEnds) stop() { l.on.Store(false) }

func (l *lostEnds) at(string) *apptest.Cut {
	if !l.on.Load() || l.n.Add(1)%10 != 0 {
		return nil
	}
	cut := &apptest.Cut{After: l.after.Load()}
	if l.n.Load()%50 == 0 {
		cut.Silent = cutSilence
	}
	return cut
}

// shiftedClock gives the database a clock that clock moves.
const shiftedClock = `
	CREATE TABLE public.test_clock AS SELECT interval '0' AS ahead;
	CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql
		AS $$ SELECT pg_catalog.clock_timestamp() + (SELECT ahead FROM public.test_clock) $$;
	ALTER DATABASE postgres SET search_path = public, pg_catalog`

// clock moves the database's clock, as its machine or a failover would.
func (c *chaos) clock(ahead string) {
	c.t.Helper()
	c.receiver.mu.Lock()
	c.receiver.clocks = []time.Duration{10 * time.Minute, -10 * time.Minute}
	c.receiver.mu.Unlock()
	c.exec(fmt.Sprintf(`UPDATE public.test_clock SET ahead = '%s'`, ahead))
}

// fullStream lets the stream take one message for a while, however often the service sets it right again.
func (c *chaos) fullStream(away time.Duration) {
	c.t.Helper()
	for end := time.Now().Add(away); time.Now().Before(end); hold(100 * time.Millisecond) {
		c.atStream("takes one message at most", func(stream jetstream.Stream) jetstream.StreamConfig {
			config := stream.CachedInfo().Config
			config.MaxMsgs = 1
			return config
		})
	}
}

// sealedStream can be read and not written, and never unsealed: an operator deletes it in the end.
func (c *chaos) sealedStream() {
	c.t.Helper()
	c.atStream("is sealed", func(stream jetstream.Stream) jetstream.StreamConfig {
		config := stream.CachedInfo().Config
		config.Sealed = true
		return config
	})
	hold(outage)
	c.deletedStream()
}

func (c *chaos) atStream(what string, change func(jetstream.Stream) jetstream.StreamConfig) {
	c.t.Helper()
	c.eventually("the stream, which may elect a leader, "+what, func(js jetstream.JetStream) error {
		stream, err := js.Stream(c.t.Context(), "MR")
		if err == nil {
			_, err = js.UpdateStream(c.t.Context(), change(stream))
		}
		return err
	})
}

func (c *chaos) deletedStream() {
	c.t.Helper()
	c.eventually("the stream is deleted", func(js jetstream.JetStream) error {
		err := js.DeleteStream(c.t.Context(), "MR")
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil // the service was faster
		}
		return err
	})
}

// pausedConsumers are paused for an hour, and not resumed by the test.
func (c *chaos) pausedConsumers() {
	c.t.Helper()
	c.eventually("the workers' consumers are paused", func(js jetstream.JetStream) error {
		stream, err := js.Stream(c.t.Context(), "MR")
		if err != nil {
			return err
		}
		names := stream.ConsumerNames(c.t.Context())
		for name := range names.Name() {
			if _, err := js.PauseConsumer(c.t.Context(), "MR", name, time.Now().Add(time.Hour)); err != nil {
				return err
			}
		}
		return names.Err()
	})
	hold(outage)
}

// eventually does something to NATS until it succeeds.
func (c *chaos) eventually(what string, do func(jetstream.JetStream) error) {
	c.t.Helper()
	nc, err := nats.Connect("nats://" + c.nats.Nodes[0].Address())
	if err != nil {
		c.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	wait.Until(c.t, what, func() bool { return do(js) == nil })
}

// left lists some of what is not delivered, as the database has it.
func (c *chaos) left() (list []string) {
	c.t.Helper()
	hub := &apptest.Hub{Stack: apptest.Production, Env: map[string]string{"DATABASE_URL": c.postgres.Address()}}
	rows, err := openDatabase(c.t, hub).QueryContext(c.t.Context(), `
		SELECT format('%s of request %s, which is %s, to %s: %s, attempts %s, last status %s, worker %s, due in %s s', d.id,
			d.request_id, r.status, d.destination, d.status, d.attempts, d.last_status, d.worker,
			(d.next_attempt_at / 1000000 - extract(epoch FROM pg_catalog.clock_timestamp()))::bigint)
		FROM material_requests r LEFT JOIN webhook_deliveries d ON d.uid = r.uid AND d.round = r.round
		WHERE d.status IS DISTINCT FROM 'delivered' ORDER BY r.uid LIMIT 20`)
	if err != nil {
		c.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			c.t.Fatal(err)
		}
		list = append(list, line)
	}
	if err := rows.Err(); err != nil {
		c.t.Fatal(err)
	}
	return list
}
