package sending

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// nameserver answers every query for a name with the next of its addresses, the last one again and again.
type nameserver struct {
	mu        sync.Mutex
	addresses map[string][]string
	conn      net.PacketConn
}

func newNameserver(t *testing.T, addresses map[string][]string) *nameserver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameserver{addresses: addresses, conn: conn}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve()
	}()
	t.Cleanup(func() {
		_ = conn.Close() // ends the server
		<-done
	})
	return s
}

func (s *nameserver) serve() {
	packet := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(packet)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(packet[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		answer := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true},
			Questions: query.Questions}
		s.answer(&answer)
		if text, err := answer.Pack(); err == nil {
			_, _ = s.conn.WriteTo(text, from)
		}
	}
}

func (s *nameserver) answer(m *dnsmessage.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	list := s.addresses[name]
	if len(list) == 0 {
		m.RCode = dnsmessage.RCodeNameError
		return
	}
	address := netip.MustParseAddr(list[0])
	header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class} // TTL 0: asked again each time
	switch {
	case q.Type == dnsmessage.TypeA && address.Is4():
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: address.As4()}})
	case q.Type == dnsmessage.TypeAAAA && address.Is6():
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header,
			Body: &dnsmessage.AAAAResource{AAAA: address.As16()}})
	default:
		return
	}
	if len(list) > 1 {
		s.addresses[name] = list[1:]
	}
}

// dialer is the guarded one that asks this server. Instead of connecting to an address that it allows, it notes it.
func (s *nameserver) dialer(allowed *[]string) *net.Dialer {
	d := guardedDialer(false, nil)
	d.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
	judge := d.Control
	var mu sync.Mutex
	d.Control = func(network, address string, c syscall.RawConn) error {
		if err := judge(network, address, c); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		*allowed = append(*allowed, address)
		return errors.New("not connected by this test")
	}
	return d
}

func TestDialer_judges_what_a_name_resolves_to_when_it_connects(t *testing.T) {
	t.Parallel()
	server := newNameserver(t, map[string][]string{
		"loopback.test": {"127.0.0.1"}, "metadata.test": {"169.254.169.254"}, "six.test": {"::1"},
		"mapped.test": {"::ffff:127.0.0.1"},
		"nat64.test":  {"64:ff9b::7f00:1"}, "sixtofour.test": {"2002:7f00:1::"}, "unique.test": {"fd00:ec2::254"},
		"linklocal.test": {"fe80::1"}, "any.test": {"0.0.0.0"},
		"2130706433": {"127.0.0.1"}, "0x7f000001": {"127.0.0.1"}, "0177.0.0.1": {"127.0.0.1"}, "127.1": {"127.0.0.1"},
		"0":           {"0.0.0.0"},
		"public.test": {"93.184.215.14"}, "rebinding.test": {"93.184.215.14", "127.0.0.1"},
	})
	for _, host := range []string{
		"loopback.test", "metadata.test", "six.test", "mapped.test", "nat64.test", "sixtofour.test", "unique.test",
		"linklocal.test", "any.test",
		"0x7f000001", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]",
	} {
		var allowed []string
		if _, err := server.dialer(&allowed).DialContext(t.Context(), "tcp", host+":80"); !errors.Is(err,
			deliveries.ErrSpecialAddress) || len(allowed) != 0 {
			t.Errorf("%s: %v, connected to %v", host, err, allowed)
		}
	}
	// Go takes a number neither for an address nor for a name
	for _, number := range []string{"2130706433", "0177.0.0.1", "127.1", "0"} {
		var allowed []string
		if _, err := server.dialer(&allowed).DialContext(t.Context(), "tcp", number+":80"); err == nil || len(allowed) != 0 {
			t.Errorf("%s: %v, connected to %v", number, err, allowed)
		}
	}
	var allowed []string
	if _, err := server.dialer(&allowed).DialContext(t.Context(), "tcp", "public.test:80"); errors.Is(err,
		deliveries.ErrSpecialAddress) || len(allowed) != 1 || allowed[0] != "93.184.215.14:80" {
		t.Errorf("public: %v, connected to %v", err, allowed)
	}
	// The first answer is public, as a check before the call would see it; the second one counts.
	allowed = nil
	_, first := server.dialer(&allowed).DialContext(t.Context(), "tcp", "rebinding.test:80")
	_, second := server.dialer(&allowed).DialContext(t.Context(), "tcp", "rebinding.test:80")
	if errors.Is(first, deliveries.ErrSpecialAddress) || !errors.Is(second, deliveries.ErrSpecialAddress) ||
		len(allowed) != 1 {
		t.Errorf("rebinding: %v, then %v, connected to %v", first, second, allowed)
	}
}

func TestSender_follows_no_redirect_into_the_network(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		var calls atomic.Int64
		inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
		t.Cleanup(inside.Close)
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside.URL, status)
		}))
		t.Cleanup(receiver.Close)
		sender := newSender(Deps{Concurrency: 1, AllowPrivate: true, Timeout: time.Minute})
		a := sender.send(t.Context(), job{Begun: deliveries.Begun{Destination: "acme"},
			target: receivers.Receiver{URL: receiver.URL, Secrets: []webhook.Secret{webhook.NewSecret()}, Active: true}},
			time.Now())
		sender.close()
		if a.Err != nil || a.Status != status || calls.Load() != 0 {
			t.Errorf("%d: answered %d, %v; the address inside was called %d times", status, a.Status, a.Err, calls.Load())
		}
	}
}

func TestPublic_addresses(t *testing.T) {
	t.Parallel()
	for text, public := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "172.15.255.255": true, "172.32.0.0": true, "2606:4700::1111": true,
		"::ffff:8.8.8.8": true,
		"0.0.0.0":        false, "10.1.2.3": false, "100.64.0.1": false, "127.0.0.1": false, "127.255.255.254": false,
		"169.254.169.254": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.168.1.1": false, "192.0.0.8": false, "198.18.0.1": false, "224.0.0.1": false, "240.0.0.1": false,
		"255.255.255.255": false, "192.88.99.1": false,
		"::1": false, "::": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "64:ff9b::7f00:1": false,
		"fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd00::1": false,
		"ff02::1": false, "2002:7f00:1::": false, "2001:0:1::1": false, "2001:db8::1": false, "fec0::1": false,
	} {
		if got := isPublic(netip.MustParseAddr(text)); got != public {
			t.Errorf("%s: public %v", text, got)
		}
	}
	if isPublic(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestDialer_judges_the_resolved_address(t *testing.T) {
	t.Parallel()
	control := guardedDialer(false, nil).Control
	for address, refused := range map[string]bool{"8.8.8.8:443": false, "127.0.0.1:80": true,
		"[::ffff:127.0.0.1]:80": true, "[::1]:80": true, "2130706433:80": true, "nonsense": true} {
		if err := control("tcp", address, nil); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	control = guardedDialer(true, nil).Control
	if err := control("tcp", "127.0.0.1:80", nil); err != nil {
		t.Error("private addresses are refused although allowed")
	}
}

func TestDialer_refuses_the_operators_own_public_networks(t *testing.T) {
	t.Parallel()
	deny := Networks{netip.MustParsePrefix("8.8.4.0/24"), netip.MustParsePrefix("2600:1234::/32")}
	for address, refused := range map[string]bool{"8.8.8.8:443": false, "8.8.4.4:443": true, "[::ffff:8.8.4.4]:443": true,
		"[2600:1234::1%eth0]:443": true, "[2600:1235::1]:443": false} {
		for _, allowPrivate := range []bool{false, true} {
			if err := guardedDialer(allowPrivate, deny).Control("tcp", address, nil); (err != nil) != refused {
				t.Errorf("%s, private ones allowed %t: %v", address, allowPrivate, err)
			}
		}
	}
}
