package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"regexp"
	"strings"
)

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
	return nil
}

var (
	streamName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	nkeySeed   = regexp.MustCompile(`(?m)^\s*SU[A-Z2-7]{50,}\s*$`)
)

// checkNATS looks at everything that a connection to NATS is made of.
func (c *Config) checkNATS(f *faults) {
	for u := range strings.SplitSeq(string(c.NATSURL), ",") {
		f.bad(c.NATSURL != "" && !natsAddress(strings.TrimSpace(u)), "NATS_URL",
			"every address must start with nats://, tls://, ws:// or wss://")
	}
	f.between("NATS_REPLICAS", c.NATSReplicas, 1, 5)
	f.bad(c.NATSMaxBytes < 1, "NATS_MAX_BYTES", "must be positive")
	f.bad(!streamName.MatchString(c.NATSStream), "NATS_STREAM", "must be 1 to 64 letters, digits, - or _")
	f.file("NATS_CREDS", c.NATSCreds)
	f.file("NATS_NKEY", c.NATSNKey)
	f.bad(c.NATSNKey != "" && !fileHolds(c.NATSNKey, nkeySeed.Match), "NATS_NKEY",
		"must be a file with the seed of a user's nkey (SU…)")
	f.file("NATS_CA", c.NATSCA)
	f.bad(c.NATSCA != "" && !fileHolds(c.NATSCA, x509.NewCertPool().AppendCertsFromPEM), "NATS_CA",
		"must be a file of PEM certificates")
	f.bad(c.NATSCert != "" && c.NATSKey == "", "NATS_KEY", "is needed with NATS_CERT")
	f.bad(c.NATSKey != "" && c.NATSCert == "", "NATS_CERT", "is needed with NATS_KEY")
	f.file("NATS_CERT", c.NATSCert)
	f.file("NATS_KEY", c.NATSKey)
	if c.NATSCert != "" && c.NATSKey != "" {
		_, err := tls.LoadX509KeyPair(c.NATSCert, c.NATSKey)
		f.bad(err != nil, "NATS_CERT", "must be a file of a PEM certificate whose key is in NATS_KEY")
	}
}

func fileHolds(path string, right func([]byte) bool) bool {
	content, err := os.ReadFile(path)
	return err == nil && right(content)
}

func natsAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && oneOf(u.Scheme, "nats", "tls", "ws", "wss")
}
