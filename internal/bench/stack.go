package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// stack is the production stack on this machine: the private PostgreSQL cluster, a nats-server, one api, one worker.
type stack struct {
	dir   string
	env   []string
	procs []*exec.Cmd

	postmaster int    // process id
	admin      string // the operator's address of the api that was started last
}

const (
	connections    = 64
	databasePrefix = "bench_"
)

// onStack runs a measurement on a stack of its own.
func onStack(ctx context.Context, measurement func(context.Context, *stack) error) error {
	s, err := newStackOf(ctx, "")
	if s != nil {
		defer s.close()
	}
	if err != nil {
		return err
	}
	return measurement(ctx, s)
}

// newStackOf returns a stack of the api and the worker of a checkout; empty: this one.
func newStackOf(ctx context.Context, tree string) (*stack, error) {
	dir, err := os.MkdirTemp("", "supplyhub-bench-")
	if err != nil {
		return nil, err
	}
	s := &stack{dir: dir}
	database, err := s.createDatabase(ctx)
	if err != nil {
		return s, err
	}
	for _, b := range []struct{ tree, target string }{{tree, "./cmd/api"}, {tree, "./cmd/worker"},
		{"", "./internal/bench"}, {"", "github.com/nats-io/nats-server/v2"}} {
		if err := build(ctx, b.tree, dir, b.target); err != nil {
			return s, err
		}
	}
	s.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "DATABASE_URL=" + database, "HTTP_ADDR=127.0.0.1:0",
		"ADMIN_ADDR=127.0.0.1:0",
		"LOG_LEVEL=warn", "LOG_FORMAT=json", "WEBHOOK_ALLOW_PRIVATE=true", "DATA_DIR=" + dir + "/data"}
	for _, g := range []struct {
		variable string
		command  []string
	}{{"JWT_SIGNING_KEYS", []string{"keys", "generate"}}, {"SECRETS_KEY",
		[]string{"keys", "generate", "--secrets"}}, {"WEBHOOK_SIGNING_SECRETS", []string{"secrets", "generate"}}} {
		out, err := s.command(ctx, g.command...)
		if err != nil {
			return s, err
		}
		s.env = append(s.env, g.variable+"="+strings.TrimSpace(string(out)))
	}
	return s, nil
}

// build makes a binary of a checkout as `make build` does.
func build(ctx context.Context, tree, dir, target string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "nomsgpack", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/",
		target)
	cmd.Dir, cmd.Env = tree, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", target, err, out)
	}
	return nil
}

func (s *stack) createDatabase(ctx context.Context) (string, error) {
	server, err := required(postgresVariable)
	if err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	name := fmt.Sprintf("%s%d", databasePrefix, time.Now().UnixNano())
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", err
	}
	var directory string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&directory); err != nil {
		return "", err
	}
	if text, err := os.ReadFile(filepath.Join(directory, "postmaster.pid")); err == nil { // else its CPU is not counted
		_, _ = fmt.Sscan(string(text), &s.postmaster)
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", errors.New("the address of the test PostgreSQL is not a URL")
	}
	u.Path = "/" + name
	return u.String(), nil
}

func (s *stack) command(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.dir, "api"), args...)
	cmd.Env = s.env
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

// start runs one of the built binaries until close; its standard error is shown.
func (s *stack) start(name string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command(filepath.Join(s.dir, name), args...)
	cmd.Env = s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.procs = append(s.procs, cmd)
	return cmd, nil
}

func (s *stack) stop(cmd *exec.Cmd) error {
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	return cmd.Wait()
}

func (s *stack) close() {
	for i := len(s.procs) - 1; i >= 0; i-- {
		if s.procs[i].ProcessState == nil {
			_ = s.procs[i].Process.Kill()
			_ = s.procs[i].Wait()
		}
	}
	_ = os.RemoveAll(s.dir)
}

// startNATS runs a nats-server, waits until it listens and gives its address to what is started later.
func (s *stack) startNATS() error {
	port, err := freePort()
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	s.env = append(s.env, "NATS_URL=nats://"+address)
	_, err = s.start("nats-server", "-js", "-sd", filepath.Join(s.dir, "nats"), "-a", "127.0.0.1",
		"-p", strconv.Itoa(port), "-l", filepath.Join(s.dir, "nats.log"))
	if err != nil {
		return err
	}
	return until(func() bool { return listens(address) })
}

func listens(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// freePort returns a port that nothing listens on and that no outgoing connection is given.
func freePort() (port int, err error) {
	for range 100 {
		port = 20_000 + rand.IntN(12_000)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no port is free: %w", err)
}

// startAPI runs an api on a free port and waits until it is ready.
func (s *stack) startAPI() (address string, cmd *exec.Cmd, err error) {
	ports := [2]int{}
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return "", nil, err
		}
	}
	address, s.admin = fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	s.env = append(s.env, "HTTP_ADDR="+address, "ADMIN_ADDR="+s.admin)
	cmd, err = s.start("api")
	if err != nil {
		return "", nil, err
	}
	return address, cmd, until(func() bool { return healthy("http://" + s.admin + "/readyz") })
}

func healthy(url string) bool {
	response, err := http.Get(url)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func until(condition func() bool) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if condition() {
			return nil
		}
	}
	return errors.New("a part of the stack did not start within 30 s")
}

// supplier makes a supplier and returns an access token that outlives the bench.
func (s *stack) supplier(ctx context.Context, address, webhookURL string) (token string, err error) {
	_, key, err := s.create(ctx, webhookURL)
	if err != nil {
		return "", err
	}
	return tokenOf(ctx, address, key)
}

// create makes a supplier and returns its id and API key.
func (s *stack) create(ctx context.Context, webhookURL string, flags ...string) (id, key string, err error) {
	out, err := s.command(ctx, append([]string{"supplier", "create", "--name", "bench", "--access-ttl", "2h",
		"--webhook-url", webhookURL, "-o", "json"}, flags...)...)
	if err != nil {
		return "", "", err
	}
	var created struct {
		ID     string `json:"id"`
		APIKey string `json:"api_key"`
	}
	err = json.Unmarshal(out, &created)
	return created.ID, created.APIKey, err
}

// tokenOf returns an access token.
func tokenOf(ctx context.Context, address, key string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/api/external-auth/token", nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("X-Api-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var tokens struct{ AccessToken string }
	err = json.NewDecoder(response.Body).Decode(&tokens)
	return tokens.AccessToken, err
}

// load runs the load generator as a process of its own.
func (s *stack) load(ctx context.Context, plan loadPlan) (loadResult, error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return loadResult{}, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.dir, "bench"), "load")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return loadResult{}, err
	}
	var result loadResult
	return result, json.Unmarshal(out, &result)
}

// database returns the address of the stack's database, for a connection of our own.
func (s *stack) database() string { return s.variable("DATABASE_URL") }

// variable returns the value of one of the processes' environment variables; of one that is given twice the last
// counts.
func (s *stack) variable(name string) string {
	for _, entry := range slices.Backward(s.env) {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	return ""
}
