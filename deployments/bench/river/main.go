// Command river does the service's work with River, a PostgreSQL queue: tokens are verified, requests validated and
// stored once, a worker computes the estimates, and both webhooks are sent, the second one to an endpoint of its own
// that stores the estimates (estimate.go). It keeps no lists, no counts and no log of attempts. Its settings are the
// best ones that were found for 2 cores.
package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	workers       = 500
	fetchCooldown = 10 * time.Millisecond
	connections   = 32
)

// delivery is the job: one request whose webhook is to be sent.
type delivery struct {
	RequestID int64  `json:"request_id"`
	Own       bool   `json:"own,omitempty"` // to the build's own endpoint
	Event     string `json:"event"`         // the body, of the same bytes each time
}

// Kind names the job.
func (delivery) Kind() string { return "delivery" }

type deliverer struct {
	river.WorkerDefaults[delivery]
	client        *http.Client
	receiver, own string
}

// Work posts the webhook; an error lets River try again.
func (d *deliverer) Work(ctx context.Context, job *river.Job[delivery]) error {
	body := []byte(job.Args.Event)
	id, at := fmt.Sprintf("%d-%t", job.Args.RequestID, job.Args.Own), strconv.FormatInt(time.Now().Unix(), 10)
	to := d.receiver
	if job.Args.Own {
		to = d.own
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("webhook-id", id)
	request.Header.Set("webhook-timestamp", at)
	request.Header.Set("webhook-signature", signature(id, at, body))
	response, err := d.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

func signature(id, at string, body []byte) string {
	mac := hmac.New(sha256.New, []byte("of-the-benchmark"))
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, part string) error {
	cfg, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	cfg.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	switch part {
	case "migrate":
		migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
		if err != nil {
			return err
		}
		if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return err
		}
		_, err = pool.Exec(ctx, `CREATE TABLE requests (id bigint PRIMARY KEY, status text NOT NULL, body text NOT NULL,
			digest bytea, estimates text)`)
		return err
	case "api":
		return api(ctx, pool)
	case "worker":
		return worker(ctx, pool)
	case "token":
		return printToken()
	default:
		return fmt.Errorf("unknown part %q", part)
	}
}

func api(ctx context.Context, pool *pgxpool.Pool) error {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet()})
	if err != nil {
		return err
	}
	handler := http.NewServeMux()
	handler.HandleFunc("POST /", intake(pool, client))
	handler.HandleFunc("POST /estimates", estimates(pool))
	server := &http.Server{Addr: os.Getenv("HTTP_ADDR"), ReadHeaderTimeout: time.Second, Handler: handler}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// estimates returns the build's own endpoint: it stores what a signed webhook brings in the request's row.
func estimates(pool *pgxpool.Pool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var event struct{ Data delivery }
		body, ok := read(w, r, &event)
		if !ok {
			return
		}
		signed := signature(r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
		if !hmac.Equal([]byte(signed), []byte(r.Header.Get("webhook-signature"))) {
			http.Error(w, "not signed", http.StatusUnauthorized)
			return
		}
		if _, err := pool.Exec(r.Context(), `UPDATE requests SET status = 'estimated', estimates = $2 WHERE id = $1`,
			event.Data.RequestID, string(body)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

// read takes the body in and decodes it; it answers what it cannot read.
func read(w http.ResponseWriter, r *http.Request, into any) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return body, err == nil
}

func enqueued(w http.ResponseWriter, status int, id int64) {
	answer := fmt.Appendf(nil, `{"status":"enqueued","id":%d}`, id)
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the caller is gone when it fails
}

func worker(ctx context.Context, pool *pgxpool.Pool) error {
	transport := &http.Transport{MaxIdleConns: workers, MaxIdleConnsPerHost: workers}
	all := river.NewWorkers()
	river.AddWorker(all, &deliverer{
		client:   &http.Client{Transport: transport, Timeout: 15 * time.Second},
		receiver: os.Getenv("RECEIVER_URL"), own: os.Getenv("OWN_URL"),
	})
	river.AddWorker(all, &estimator{})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: quiet(), Workers: all, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		FetchCooldown: fetchCooldown, FetchPollInterval: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	fmt.Println("running")
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return client.Stop(end)
}

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}
