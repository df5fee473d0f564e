package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// healthTimeout is a little more than /readyz gives its checks.
const healthTimeout = 3 * time.Second

var errNotReady = errors.New("not ready")

// Health is what /readyz of a process on this machine says.
type Health struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

// APIHealth asks the api of this configuration whether it is ready; an error says why it is not.
func APIHealth(ctx context.Context, cfg *config.Config) (Health, error) {
	return health(ctx, cmp.Or(cfg.AdminAddr, defaultAPIAdmin))
}

// WorkerHealth asks the worker of this configuration whether it is ready; an error says why it is not.
func WorkerHealth(ctx context.Context, cfg *config.Config) (Health, error) {
	return health(ctx, cmp.Or(cfg.AdminAddr, defaultWorkerAdmin))
}

// health asks the operator listener of a process for /readyz.
func health(ctx context.Context, adminAddr string) (h Health, err error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, ownURL(adminAddr)+"/readyz", nil)
	if err != nil {
		return h, fmt.Errorf("ADMIN_ADDR: %w", err)
	}
	request.Host = "localhost" // the listener may not know the name that ADMIN_ADDR gives this machine
	status, body, err := ask(request)
	switch {
	case err != nil:
		return h, fmt.Errorf("nothing answers at ADMIN_ADDR: %w", err)
	case status != http.StatusOK:
		return h, fmt.Errorf("%w: status %d: %s", errNotReady, status, body)
	}
	err = json.Unmarshal(body, &h)
	return h, errs.Doing("read /readyz", err)
}

// ask calls a process of this installation, without a proxy, and reads its answer.
func ask(request *http.Request) (status int, body []byte, err error) {
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, body, err
}

// ownURL returns the URL at which this machine reaches a listener: at its address, or at loopback when it has all.
func ownURL(hostPort string) string {
	host, port, _ := net.SplitHostPort(hostPort) // its form was checked
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return (&url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}).String()
}
