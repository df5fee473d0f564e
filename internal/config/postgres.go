package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// libpqOnly are libpq's parameters that pgx does not know: it would send them to the server, which refuses the
// connection. They are named and not left out, as some of them ask for safety that would then be missing.
var libpqOnly = []string{"fallback_application_name", "gssdelegation", "gssencmode", "gsslib", "hostaddr", "keepalives",
	"keepalives_count", "keepalives_idle", "keepalives_interval", "load_balance_hosts", "oauth_client_id",
	"oauth_client_secret", "oauth_issuer", "oauth_scope", "replication", "requirepeer", "requiressl", "scram_client_key",
	"scram_server_key", "ssl_max_protocol_version", "ssl_min_protocol_version", "sslcompression", "sslcrl", "sslcrldir",
	"sslkeylogfile", "tcp_user_timeout"}

// postgresFault reports what is wrong with an address of PostgreSQL, without the address: it may hold a password.
func postgresFault(text string) error {
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return errors.New("must start with postgres://")
	}
	u, err := url.Parse(text)
	query := err == nil && u.Host != "" && u.Path == "" && strings.Contains(u.RawQuery, "@") // after a ? in a password
	if err != nil || u.Fragment != "" || strings.Contains(u.Path, "@") || query {
		return errors.New("is no address as it is written: in a password, @ is written %40, / %2F, ? %3F, # %23 and % %25")
	}
	var unknown []string
	for name := range u.Query() {
		if slices.Contains(libpqOnly, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return fmt.Errorf("must be without %s, which only libpq knows", strings.Join(unknown, ", "))
	}
	return nil
}
