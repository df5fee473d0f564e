package portal

import (
	"context"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// Base is the path of the portal.
const Base = "/portal"

const signInPath = Base + "/sign-in"

// Link is a link that signs a supplier in, once.
type Link struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// NewLink returns a link at the service's public address, such as https://hub.example. Errors: errs.Invalid where that
// is none, as a call's Host may be.
func NewLink(ctx context.Context, sessions Sessions, supplierID, public string) (Link, error) {
	u, err := url.Parse(public)
	if err != nil || u.Hostname() == "" {
		return Link{}, errs.New(errs.Invalid, "The call's Host header is no name under which a browser finds this service.")
	}
	token, expires, err := sessions.NewPortalLink(ctx, supplierID, !plainLoopback(u))
	if err != nil {
		return Link{}, err
	}
	u.Path = signInPath
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
