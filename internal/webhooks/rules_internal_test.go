package webhooks

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"
)

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

func TestSchedule_waits_within_its_jitter(t *testing.T) {
	t.Parallel()
	s := schedule{5 * time.Second, time.Minute}
	now := time.Unix(1_795_000_000, 0)
	rapid.Check(t, func(rt *rapid.T) {
		series := rapid.Int64Range(1, 2).Draw(rt, "attempt")
		o := s.outcome("acme", answer{status: 500}, series, now, rapid.Float64Range(0, 0.999).Draw(rt, "random"))
		step := s[series-1]
		if wait := o.Next.Sub(now); o.Status != Pending || wait < step*8/10 || wait > step*12/10 {
			rt.Fatalf("attempt %d: %s after %s", series, o.Status, wait)
		}
	})
	if o := s.outcome("acme", answer{status: 500}, 3, now, 0); o.Status != Dead {
		t.Errorf("after the last attempt: %s", o.Status)
	}
}

func TestRetryAfter_forms(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "3601": time.Hour, "99999999999999999999": time.Hour,
		"-5": 0, "1.5": 0, "soon": 0,
		"Sat, 21 Nov 2026 12:00:30 GMT": 30 * time.Second, "Sat, 21 Nov 2026 11:00:00 GMT": 0,
		"Sun, 21 Nov 2027 11:00:00 GMT": time.Hour,
	} {
		if got := parseRetryAfter(text, now, time.Hour); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Sat, 21 Nov 2026 12:00:30 GMT")
	f.Fuzz(func(t *testing.T, text string) {
		if got := parseRetryAfter(text, time.Unix(1_795_000_000, 0), time.Hour); got < 0 || got > time.Hour {
			t.Fatalf("%q: %s", text, got)
		}
	})
}
