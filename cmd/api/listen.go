package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/scoreboard/sample"
	"github.com/supplyhub/supplyhub/internal/sleep"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	slowAnswer  = 20 * time.Second // longer than the default of WEBHOOK_TIMEOUT
	longestCall = 8 << 20          // bytes of a body
)

// call is a webhook as `listen` prints it.
type call struct {
	Time      time.Time       `json:"time"`
	Path      string          `json:"path"`
	ID        string          `json:"webhook_id"`
	Signature string          `json:"signature"` // valid, unchecked, or why it is not valid
	Answered  string          `json:"answered"`
	Body      json.RawMessage `json:"body"`
}

// receiver prints each call and gives the configured answer.
type receiver struct {
	secrets []webhook.Secret // none: nothing is checked
	answer  string
	json    bool

	mu  sync.Mutex // calls are printed one by one
	out io.Writer
}

func listenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "listen", Short: "receive webhooks here and print each one, to try things out",
		Args: cobra.NoArgs,
		Long: `Receives webhooks, prints each one and says whether its signature holds. The service calls a private address
like this one only with WEBHOOK_ALLOW_PRIVATE=true; ` + "`serve --demo`" + ` sets that itself.`,
		Example: "  WEBHOOK_SECRET=whsec_… api listen\n" +
			"  WEBHOOK_ALLOW_PRIVATE=true api supplier update sup_… --webhook-url http://127.0.0.1:7001"}
	addr := cmd.Flags().String("addr", "127.0.0.1:7001", "address to listen on")
	secret := cmd.Flags().String("secret", "",
		"the supplier's whsec_ secret; set WEBHOOK_SECRET instead to hide it from other users of the machine; "+
			"without a secret no signature is checked")
	answer := choiceFlag(cmd, cmd.Flags(), "answer", "", "200",
		"status to answer; slow is 200 after 20 s, too late for the service", "200", "410", "500", "slow")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r := &receiver{answer: answer.value, json: asJSON(cmd), out: cmd.OutOrStdout()}
		if text := cmp.Or(*secret, os.Getenv("WEBHOOK_SECRET")); text != "" {
			parsed, err := webhook.ParseSecret(text)
			if err != nil {
				return fmt.Errorf("--secret or WEBHOOK_SECRET: %w", err)
			}
			r.secrets = []webhook.Secret{parsed}
		}
		return serveHere(cmd, *addr, r, fmt.Sprintf("answering %s; stop with Ctrl-C", answer.value))
	}
	return cmd
}

// serveHere serves handler until the command is interrupted. It prints the address on standard error.
func serveHere(cmd *cobra.Command, addr string, handler http.Handler, note string) error {
	listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", addr)
	if err != nil {
		return failure{fmt.Errorf("%w: choose another address with --addr", err)}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "listening on http://%s, %s\n", listener.Addr(), note)
	if err := serveOn(cmd.Context(), listener, handler); err != nil {
		return failure{err}
	}
	return nil
}

// serveOn serves handler on the listener until ctx ends.
func serveOn(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: slowAnswer, BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}

// ServeHTTP prints a call and answers it.
func (l *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longestCall))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	c := call{
		Time: time.Now().UTC().Truncate(time.Millisecond), Path: r.Method + " " + r.URL.Path,
		ID:        r.Header.Get(webhook.HeaderID),
		Signature: l.check(r.Header, body), Answered: l.answer, Body: body,
	}
	if !json.Valid(body) {
		c.Body, _ = json.Marshal(string(body)) // a string always encodes
	}
	l.print(c)
	status, err := strconv.Atoi(l.answer)
	if err != nil { // slow
		status = http.StatusOK
		sleep.For(r.Context(), slowAnswer)
	}
	w.WriteHeader(status)
}

func (l *receiver) check(h http.Header, body []byte) string {
	if len(l.secrets) == 0 {
		return "unchecked"
	}
	if _, err := webhook.Verify(h, body, time.Now(), l.secrets...); err != nil {
		return err.Error()
	}
	return "valid"
}

func (l *receiver) print(c call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.json {
		_ = json.NewEncoder(l.out).Encode(c) // the reader of the output may be gone
		return
	}
	fmt.Fprintf(l.out, "\n%s  %s\n", c.Time.Format(time.TimeOnly), shownText(c.Path))
	fmt.Fprintf(l.out, "  webhook-id  %s\n  signature   %s\n  answered    %s\n", shownText(c.ID), l.verdict(c.Signature),
		c.Answered)
	pretty, _ := json.MarshalIndent(c.Body, "  ", "  ") // it is JSON
	fmt.Fprintf(l.out, "  %s\n", pretty)
}

func (l *receiver) verdict(signature string) string {
	switch signature {
	case "valid":
		return "holds"
	case "unchecked":
		return "not checked: set WEBHOOK_SECRET"
	default:
		return "DOES NOT HOLD: " + signature
	}
}

func scoreboardCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sample", Args: cobra.NoArgs,
		Short: "imitate both football providers, with sample matches of today and tomorrow"}
	addr := cmd.Flags().String("addr", "127.0.0.1:7002", "address to listen on")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		note := fmt.Sprintf(`for an api with these variables:
  PULSE_API_KEY=any SPORTMONKS_API_TOKEN=any FALLBACK_API_KEY=any \
  SPORTMONKS_BASE_URL=http://%s/sportmonks BALLDONTLIE_BASE_URL=http://%s/balldontlie`, *addr, *addr)
		return serveHere(cmd, *addr, sample.Handler(time.Now), note)
	}
	return group("scoreboard", "try the scoreboard out", cmd)
}
