package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/supplyhub/supplyhub/internal/pack"
	"github.com/supplyhub/supplyhub/internal/round"
)

const (
	awayTurns    = 4 // each without NATS and then with it
	queuedWork   = 1_000_000
	queuedAMsg   = 128 // rounds a message, as the sweeper publishes them
	sweeperLooks = 30  // one a second
)

// queueBench measures what NATS being away costs the intake, and what the sweeper does while very much waits in the
// queue.
func queueBench(ctx context.Context, s *stack) error {
	p, err := s.unworked(ctx)
	if err != nil {
		return err
	}
	if err := p.withoutNATS(ctx, "no worker"); err != nil {
		return err
	}
	s.close()
	if err := onStack(ctx, func(ctx context.Context, s *stack) error {
		p, err := s.started(ctx)
		if err == nil {
			err = p.startWorker(ctx)
		}
		if err != nil {
			return err
		}
		return p.withoutNATS(ctx, "a worker")
	}); err != nil {
		return err
	}
	return onStack(ctx, sweeperBench)
}

func sweeperBench(ctx context.Context, s *stack) error {
	p, err := s.unworked(ctx)
	if err != nil {
		return err
	}
	return p.sweeperAtRest(ctx)
}

// withoutNATS measures intake without NATS and with it, in turn as the machine's speed drifts.
func (p *pipeline) withoutNATS(ctx context.Context, workers string) error {
	var rates [2][]float64
	for range awayTurns {
		for there := range 2 {
			if err := p.setNATS(there == 1); err != nil {
				return err
			}
			if err := p.warm(ctx); err != nil {
				return err
			}
			result, err := p.run(ctx, bareDuration, 0)
			if err != nil {
				return err
			}
			rates[there] = append(rates[there], result.perSecond())
		}
	}
	away, there := sum(rates[0]), sum(rates[1])
	fmt.Printf("intake without NATS and with it, %s, %d connections, in turn\n", workers, connections)
	fmt.Printf("  accepted/s without NATS        %8.0f   %.0f\n", away/awayTurns, rates[0])
	fmt.Printf("  accepted/s with NATS           %8.0f   %.0f\n", there/awayTurns, rates[1])
	fmt.Printf("  without of with                %8.2f\n", away/there)
	return nil
}

func sum(list []float64) (total float64) {
	for _, n := range list {
		total += n
	}
	return total
}

// setNATS kills the server or starts it again at its address, over its store.
func (s *stack) setNATS(there bool) error {
	if running := s.nats.ProcessState == nil; running == there {
		return nil
	}
	if !there {
		_ = s.nats.Process.Kill()
		_ = s.nats.Wait() // it was killed
		return nil
	}
	return s.runNATS()
}

// runNATS starts the server at its address and waits until it listens.
func (s *stack) runNATS() (err error) {
	port := strings.TrimPrefix(s.variable("NATS_URL"), "nats://127.0.0.1:")
	s.nats, _, err = s.start("nats-server", "-js", "-sd", filepath.Join(s.dir, "nats"), "-a", "127.0.0.1", "-p", port,
		"-l", filepath.Join(s.dir, "nats.log"))
	if err != nil {
		return err
	}
	return until(func() bool { return listens("127.0.0.1:" + port) })
}

// atRest is what the database and the queue have done so far.
type atRest struct{ read, written, wal, published int64 }

// sweeperAtRest puts very much work into the queue and into the database, and counts what the api does about it.
func (p *pipeline) sweeperAtRest(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	nc, err := nats.Connect(p.variable("NATS_URL"))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(512))
	if err != nil {
		return err
	}
	if err := queueUp(ctx, conn, js); err != nil {
		return err
	}
	wait(ctx, 10*time.Second) // until what was just made is settled
	before, err := counted(ctx, conn, js)
	if err != nil {
		return err
	}
	used := cpuOf(p.api)
	wait(ctx, sweeperLooks*time.Second)
	after, err := counted(ctx, conn, js)
	if err != nil {
		return err
	}
	fmt.Printf("the api alone while %d requests wait in the queue, a second "+
		"(the sweeper looks once a second, the gauges each 5 s)\n", queuedWork)
	for _, f := range []struct {
		name          string
		before, after int64
	}{{"rows read", before.read, after.read}, {"rows written", before.written, after.written}, {"bytes of WAL",
		before.wal, after.wal}, {"messages published", before.published, after.published}} {
		fmt.Printf("  %-30s %8.1f\n", f.name, float64(f.after-f.before)/sweeperLooks)
	}
	fmt.Printf("  %-30s %8.1f\n", "CPU of the api, ms", (cpuOf(p.api)-used).Seconds()*1000/sweeperLooks)
	return nil
}

// queueUp puts the messages into the queue first: rows without one would be queued again.
func queueUp(ctx context.Context, conn *pgx.Conn, js jetstream.JetStream) error {
	var first int64
	if err := conn.QueryRow(ctx, `SELECT nextval('request_numbers')`).Scan(&first); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `SELECT setval('request_numbers', $1)`, first+queuedWork); err != nil {
		return err
	}
	for n := int64(0); n < queuedWork; n += queuedAMsg {
		var text bytes.Buffer
		for i := n; i < min(n+queuedAMsg, queuedWork); i++ {
			fmt.Fprintln(&text, round.Round{SupplierID: "sup_old", RequestID: i, UID: first + i, Number: 1})
		}
		if _, err := js.PublishMsgAsync(&nats.Msg{Subject: fmt.Sprintf("mr.work.%d", first+n),
			Data: text.Bytes()}); err != nil {
			return err
		}
	}
	<-js.PublishAsyncComplete()
	_, err := conn.Exec(ctx, `INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id,
			uid, ticket, created_at, updated_at, estimates, unavailable)
		SELECT 'sup_old', n, 'enqueued', decode(md5(n::text) || md5(n::text), 'hex'), 'SP-0001', $3, 'trace',
			$2::bigint + n, $2::bigint + n,
			(extract(epoch FROM now()) * 1000000)::bigint, (extract(epoch FROM now()) * 1000000)::bigint, '[]', '[]'
		FROM generate_series(0, $1::bigint - 1) AS n`, queuedWork, first, pack.Pack(body(1)))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `VACUUM ANALYZE material_requests`)
	return err
}

// counted reads the counters; what a connection has done is in them a second later at most.
func counted(ctx context.Context, conn *pgx.Conn, js jetstream.JetStream) (a atRest, err error) {
	err = conn.QueryRow(ctx, `SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint,
			sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint
		FROM pg_stat_user_tables`).Scan(&a.read, &a.written, &a.wal)
	if err != nil {
		return a, err
	}
	stream, err := js.Stream(ctx, "MR")
	if err != nil {
		return a, err
	}
	a.published = int64(stream.CachedInfo().State.LastSeq)
	return a, nil
}

// cpuOf returns the CPU time that a process has used.
func cpuOf(cmd *exec.Cmd) time.Duration {
	own, _, _ := processTimes(cmd.Process.Pid) // one that ended counts nothing
	return own
}
