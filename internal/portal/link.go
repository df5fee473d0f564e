package portal

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

// Base is the path of the portal.
const Base = "/portal"

const signInPath = Base + "/sign-in"

// Link is a link that signs a supplier in, once.
type Link struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Linker makes links.
type Linker interface {
	NewPortalLink(ctx context.Context, supplierID string, secure bool) (token string, expires time.Time, err error)
}

var _ Linker = (*supplierauth.Service)(nil)

// NewLink returns a link at the service's public address, such as https://hub.example.
func NewLink(ctx context.Context, linker Linker, supplierID, public string) (Link, error) {
	u, err := url.Parse(public)
	if err != nil {
		return Link{}, fmt.Errorf("read public address: %w", err)
	}
	token, expires, err := linker.NewPortalLink(ctx, supplierID, !plainLoopback(u))
	if err != nil {
		return Link{}, err
	}
	u.Path = strings.TrimRight(u.Path, "/") + signInPath
	u.RawQuery = url.Values{"token": {token}}.Encode()
	return Link{u.String(), expires}, nil
}

// plainLoopback reports whether the address is http on this machine, where a cookie for https alone would be lost.
func plainLoopback(u *url.URL) bool {
	host := u.Hostname()
	ip, err := netip.ParseAddr(host)
	return u.Scheme == "http" &&
		(err == nil && ip.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost"))
}
