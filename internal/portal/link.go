package portal

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Base is the path of the portal.
const Base = "/portal"

const signInPath = Base + "/sign-in"

// Link is a link that signs a supplier in, once.
type Link struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// NewLink returns a link at the service's public address, such as https://hub.example.
func NewLink(ctx context.Context, sessions Sessions, supplierID, public string) (Link, error) {
	u, err := url.Parse(public)
	if err != nil {
		return Link{}, fmt.Errorf("read public address: %w", err)
	}
	token, expires, err := sessions.NewPortalLink(ctx, supplierID, !plainLoopback(u))
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
