package app

import (
	"math"
	"net"
	"testing"

	"github.com/supplyhub/supplyhub/internal/config"
)

func TestDoctor_warns_of_a_public_address_without_TLS(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ listen, public, want string }{
		{":8080", "", warning}, {"0.0.0.0:8080", "", warning}, {"127.0.0.1:8080", "", well}, {"[::1]:8080", "", well},
		{":8080", "http://hub.example", warning}, {":8080", "http://10.0.0.1:8080", warning},
		{":8080", "http://localhost:8080", well}, {":8080", "https://hub.example", well},
	} {
		d := &doctor{pipeline: pipeline{cfg: &config.Config{HTTPAddr: test.listen, PublicURL: test.public}}}
		d.sayPublic()
		if got := d.checks[0]; got.Status != test.want || (got.Todo == "") != (test.want == well) {
			t.Errorf("%+v: %+v", test, got)
		}
	}
}

// 3,000 slow connections of a stranger once held 388 MB, more than the chart gives.
func TestConnections_of_strangers_are_bounded_by_the_process_s_memory(t *testing.T) {
	t.Parallel()
	open := func() net.Listener {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	if l := open(); bounded(l, math.MaxInt64) != l {
		t.Error("connections are bounded without a limit of memory")
	}
	l := bounded(open(), 4*connectionBytes) // room for two
	var dialer net.Dialer
	for range 3 {
		c, err := dialer.DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	accepted := make(chan net.Conn, 3)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	first, second := <-accepted, <-accepted
	select {
	case <-accepted:
		t.Error("a third connection is accepted")
	default:
	}
	_ = first.Close()
	third := <-accepted // the place of the first
	_, _ = second.Close(), third.Close()
}
