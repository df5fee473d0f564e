package httpapi

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// dialFrom opens a connection from an address of this machine.
func dialFrom(t *testing.T, from string, to net.Addr) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := dialer.DialContext(t.Context(), "tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// 3,000 slow connections of a stranger once held 388 MB, more than the chart gives, and kept all others out.
func TestLedger_counts_connections_by_address_and_one_leaves_room_for_others(t *testing.T) {
	t.Parallel()
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ledger := NewLedger(0, 6*connectionBytes)
	l := ledger.Listener(inner)
	t.Cleanup(func() { _ = l.Close() })
	accepted := make(chan net.Conn)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			accepted <- c
		}
	}()
	refused := func(c net.Conn) {
		t.Helper()
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if rest, err := io.ReadAll(answer.Body); err != nil || len(rest) > 0 ||
			answer.StatusCode != http.StatusServiceUnavailable ||
			answer.Header.Get("Retry-After") != "1" || answer.Header.Get("X-Request-Id") == "" {
			t.Errorf("what has no room is answered %d %v %q, %v", answer.StatusCode, answer.Header, rest, err)
		}
	}
	var held []net.Conn
	for range 3 { // half
		dialFrom(t, "127.0.0.1", inner.Addr())
		held = append(held, <-accepted)
	}
	refused(dialFrom(t, "127.0.0.1", inner.Addr()))
	dialFrom(t, "127.0.0.2", inner.Addr())
	held = append(held, <-accepted)
	refused(dialFrom(t, "127.0.0.2", inner.Addr())) // of 2 that are left one stays for a third
	dialFrom(t, "127.0.0.3", inner.Addr())
	held = append(held, <-accepted)
	for _, c := range held {
		_, _ = c.Close(), c.Close() // net/http closes some twice
	}
	if free := ledger.strangers.free; free != 6*connectionBytes {
		t.Errorf("afterwards %d bytes are free", free)
	}
}

// asked is a request as an engine with the ledger has it, of a caller that is known when it has a name.
func asked(t *testing.T, l *Ledger, caller string, body io.Reader) (*gin.Context, *httptest.ResponseRecorder) {
	t.Helper()
	w := httptest.NewRecorder()
	c, _ := gin.CreateTestContext(w)
	c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
	c.Set(heldKey, &held{ledger: l, caller: caller})
	return c, w
}

func TestLedger_usual_requests_ask_for_nothing_and_larger_ones_are_granted_before_they_are_read(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		caller           string
		length           int
		chunked          bool
		known, strangers int64
	}{
		"a usual body":                 {"acme", usualBytes / bodyTimes, false, 0, 0},
		"a usual body without length":  {"acme", usualBytes/bodyTimes - 1, true, 0, 0},
		"a larger body":                {"acme", 10_000, false, 10_000 * bodyTimes, 0},
		"a larger body without length": {"acme", 10_000, true, maxBody * bodyTimes, 0},
		"a stranger's":                 {"", 10_000, false, 0, 0},
		"a stranger's largest":         {"", strangerBody, false, 0, 0},
	} {
		l := NewLedger(ample, ample)
		var body io.Reader = strings.NewReader(strings.Repeat(" ", test.length))
		if test.chunked {
			body = io.MultiReader(body)
		}
		c, _ := asked(t, l, test.caller, body)
		raw, err := ReadJSON(c)
		if known, strangers := ample-l.known.free, ample-l.strangers.free; err != nil || len(raw) != test.length ||
			known != test.known || strangers != test.strangers {
			t.Errorf("%s: %d bytes, %v; %d and %d are held", name, len(raw), err, known, strangers)
		}
	}
}

// A list of empty objects of 64 KiB becomes structs of 2 MB.
func TestLedger_grants_what_decoding_costs_before_a_body_is_decoded(t *testing.T) {
	t.Parallel()
	l := NewLedger(ample, ample)
	body := `{"materials":[{}` + strings.Repeat(",{}", 20_000) + `]}`
	c, _ := asked(t, l, "acme", strings.NewReader(body))
	if _, err := DecodeJSON[struct{}](c, nil); err != nil {
		t.Fatal(err)
	}
	if held := ample - l.known.free; held < 20_000*objectBytes {
		t.Errorf("%d bytes are held", held)
	}
}

func TestLedger_waits_for_a_share_for_a_while_then_the_answer_is_503_and_others_have_theirs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLedger(1<<20, 1<<20)
		c, _ := asked(t, l, "greedy", nil)
		if err := Hold(c, 1<<19); err != nil {
			t.Fatal(err)
		}
		engine := NewEngine(EngineConfig{Log: slog.New(slog.DiscardHandler), Ledger: l})
		engine.GET("/:who", Handle(func(c *gin.Context) error {
			Known(c, c.Param("who"))
			if err := Hold(c, 100_000); err != nil {
				return err
			}
			Bytes(c, http.StatusOK, "text/plain", bytes.Repeat([]byte("x"), 90_000))
			return nil
		}))
		get := func(who string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			engine.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+who, nil))
			return w
		}
		begun := time.Now()
		if w := get("other"); w.Code != http.StatusOK || time.Since(begun) > 0 {
			t.Errorf("another caller: %d after %v", w.Code, time.Since(begun))
		}
		if w := get("greedy"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" ||
			time.Since(begun) != holdWait {
			t.Errorf("beyond its share: %d %v after %v", w.Code, w.Header(), time.Since(begun))
		}
		time.AfterFunc(time.Second, func() { _ = Hold(c, 0) })
		if w := get("greedy"); w.Code != http.StatusOK {
			t.Errorf("when there is room again: %d", w.Code)
		}
		if l.known.free != 1<<20 {
			t.Errorf("afterwards %d bytes are free", l.known.free)
		}
	})
}

// The size of some answers is known when they are there.
func TestLedger_answers_503_in_place_of_an_answer_that_there_is_no_memory_for(t *testing.T) {
	t.Parallel()
	l := NewLedger(1<<20, 1<<20)
	first, _ := asked(t, l, "acme", nil)
	if err := Hold(first, 1<<19); err != nil {
		t.Fatal(err)
	}
	c, w := asked(t, l, "acme", nil)
	Handle(func(c *gin.Context) error { return JSON(c, http.StatusOK, strings.Repeat("x", 100_000)) })(c)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || w.Body.Len() > 1000 {
		t.Errorf("%d %v with %d bytes", w.Code, w.Header(), w.Body.Len())
	}
}

func TestHoldNow_waits_for_nothing_and_grants_no_more_than_a_caller_can_have(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		others, size   int64
		refused, never bool
	}{
		"a usual size":  {1 << 19, usualBytes, false, false},
		"a larger one":  {0, 1 << 19, false, false},
		"not free now":  {1 << 18, 1 << 19, true, false},
		"beyond a half": {0, 1<<19 + 1, false, true},
	} {
		l := NewLedger(1<<20, 1<<20)
		first, _ := asked(t, l, "acme", nil)
		if err := Hold(first, test.others); err != nil {
			t.Fatal(err)
		}
		c, _ := asked(t, l, "acme", nil)
		err := HoldNow(c, test.size)
		if errors.Is(err, ErrTooLarge) != test.never || (errs.KindOf(err) == errs.Unavailable) != test.refused ||
			(err == nil) == (test.never || test.refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadOne_reads_again_when_there_is_memory_for_what_it_found(t *testing.T) {
	t.Parallel()
	l := NewLedger(1<<20, 1<<20)
	first, _ := asked(t, l, "acme", nil)
	if err := Hold(first, 1<<19); err != nil {
		t.Fatal(err)
	}
	c, _ := asked(t, l, "acme", nil)
	reads := 0
	found, err := ReadOne(c, func(fits func(int64) bool) (string, error) {
		if reads++; !fits(40_000) {
			go func() { _ = Hold(first, 0) }()
			return "", nil
		}
		return "all", nil
	})
	if found != "all" || err != nil || reads != 2 || 1<<20-l.known.free != 120_000 {
		t.Errorf("%q, %v after %d reads; %d free", found, err, reads, l.known.free)
	}
	small, _ := asked(t, l, "acme", nil)
	if found, err := ReadOne(small, func(fits func(int64) bool) (string, error) {
		return fmt.Sprint(fits(10)), nil
	}); found != "true" ||
		err != nil {
		t.Errorf("a usual one: %q, %v", found, err)
	}
}

// parted is a list of two parts whose reads are noted.
func parted(t *testing.T, l *Ledger, noted *[]int64, sizes ...int64) (*gin.Context, *httptest.ResponseRecorder, error) {
	t.Helper()
	c, w := asked(t, l, "acme", nil)
	parts := make([]Part[string], len(sizes))
	for i, size := range sizes {
		parts[i] = Part[string]{Size: size, Read: func() ([]string, error) {
			*noted = append(*noted, l.known.total-l.known.free)
			return strings.Split(strings.Repeat("x", i), ""), nil
		}}
	}
	return c, w, AnswerList(c, "", parts...)
}

func TestAnswerList_holds_a_part_from_before_it_is_read_until_it_is_written(t *testing.T) {
	t.Parallel()
	l := NewLedger(ample, ample)
	var during []int64
	c, w, err := parted(t, l, &during, 0, 1<<20, 2<<20)
	if err != nil || w.Body.String() != `{"next_cursor":null,"data":["x","x","x"]}` {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if want := []int64{0, textTimes << 20, textTimes * 2 << 20}; fmt.Sprint(during) != fmt.Sprint(want) {
		t.Errorf("while the parts were read %v bytes were held, want %v", during, want)
	}
	if heldBy(c).giveBack(0); l.known.free != ample {
		t.Errorf("afterwards %d bytes are held", ample-l.known.free)
	}
}

func TestAnswerList_that_breaks_off_ends_the_connection(t *testing.T) {
	t.Parallel()
	for part := range 3 {
		l := NewLedger(ample, ample)
		c, w, gone := ledgerCaller(t, l)
		parts := make([]Part[string], 3)
		for i := range parts {
			parts[i].Read = func() ([]string, error) {
				if i == part { // the memory goes to others while it is read, and the caller goes too
					l.known.free = 0
					gone()
				}
				return []string{strings.Repeat("x", 1<<20)}, nil
			}
		}
		end := func() (end any) {
			defer func() { end = cmp.Or(recover(), end) }()
			return AnswerList(c, "", parts...)
		}()
		if ended := end == http.ErrAbortHandler; ended != (part > 0) || end == nil { //nolint:errorlint // a panic's value
			t.Errorf("part %d of 3: %v after %d bytes", part+1, end, w.Body.Len())
		}
	}
}

// ledgerCaller is a request that may be given up.
func ledgerCaller(t *testing.T, l *Ledger) (*gin.Context, *httptest.ResponseRecorder, context.CancelFunc) {
	t.Helper()
	c, w := asked(t, l, "acme", nil)
	ctx, gone := context.WithCancel(t.Context())
	c.Request = c.Request.WithContext(ctx)
	return c, w, gone
}

func TestNetwork_is_an_address_or_the_network_that_one_has_of_IPv6(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"2001:db8::1": "2001:db8::/64", "2001:db8::ffff:1": "2001:db8::/64", "fe80::1%eth0": "fe80::/64"} {
		if got := network(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
