package apptest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Cut is how the connection is lost around a COMMIT, or around a single statement that writes.
type Cut struct {
	After  bool          // the server has it, and its answer does not come back
	Silent time.Duration // both sides hear nothing for so long before the connection is closed
}

// NewCommitProxy is NewProxy to PostgreSQL, without TLS, that asks at each end of a transaction how the connection is
// lost there; nil: not at all. The kind is the name of the transaction or, of a statement outside of one, what Writes
// says. Each kind that is written, in a transaction too, is given to wrote.
func NewCommitProxy(tb testing.TB, network, target string, at func(kind string) *Cut, wrote func(kind string)) *Proxy {
	tb.Helper()
	p := &Proxy{network: network, target: target, open: map[net.Conn]struct{}{}}
	p.pass = func(client, server net.Conn) {
		s := &pgSession{proxy: p, client: client, server: server, at: at, wrote: wrote, answered: make(chan struct{}),
			statements: map[string]string{}, portals: map[string]string{}}
		s.pass()
	}
	p.listen(tb)
	return p
}

var writing = regexp.MustCompile(`\b(INSERT INTO|UPDATE|DELETE FROM)\s+"?([a-z_]+)`)

// Writes lists what a statement writes, as "UPDATE suppliers".
func Writes(statement string) (kinds []string) {
	for _, found := range writing.FindAllStringSubmatch(statement, -1) {
		kinds = append(kinds, found[1]+" "+found[2])
	}
	return kinds
}

// pgSession is one connection to PostgreSQL, whose client waits for the answer to each of its pieces.
type pgSession struct {
	proxy               *Proxy
	client, server      net.Conn
	at                  func(kind string) *Cut
	wrote               func(kind string)
	statements, portals map[string]string // the SQL of the prepared ones, and of the bound ones, by name
	inTx                bool
	withheld            atomic.Bool   // the server's answers go nowhere
	answered            chan struct{} // the withheld answer is there, or never comes
}

func (s *pgSession) pass() {
	done := make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		s.answers()
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		s.questions()
	}()
	<-done
	if s.withheld.Load() {
		<-done // the server's side may end first, the cut has its time
	}
}

// answers forwards what the server says until it is withheld.
func (s *pgSession) answers() {
	piece := make([]byte, 64<<10)
	for {
		n, err := s.server.Read(piece)
		if s.withheld.Load() {
			// the client waits, so that this begins with a message; the last one is ReadyForQuery
			defer close(s.answered)
			rest := bufio.NewReader(io.MultiReader(bytes.NewReader(piece[:n]), s.server))
			for err == nil {
				var kind byte
				if kind, _, err = message(rest); kind == 'Z' {
					return
				}
			}
			return
		}
		s.proxy.wait()
		if _, failed := s.client.Write(piece[:n]); err != nil || failed != nil {
			return
		}
	}
}

// message reads one message: a letter, the length of itself and of what follows, and that.
func message(from io.Reader) (kind byte, whole []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, nil, err
	}
	length := int(binary.BigEndian.Uint32(head[1:]))
	whole = append(head[:], make([]byte, max(length-4, 0))...)
	_, err = io.ReadFull(from, whole[len(head):])
	return head[0], whole, err
}

// startup forwards the first message, which has no letter, and reports whether a session follows.
func (s *pgSession) startup(from io.Reader) bool {
	const session = 3 // the protocol's major version; cancelling and asking for TLS have other numbers
	head := make([]byte, 8)
	if _, err := io.ReadFull(from, head); err != nil {
		return false
	}
	if _, err := s.server.Write(head); err != nil {
		return false
	}
	if binary.BigEndian.Uint16(head[4:]) != session {
		_, _ = io.Copy(s.server, from) // until either side ends
		return false
	}
	_, err := io.CopyN(s.server, from, int64(binary.BigEndian.Uint32(head))-8)
	return err == nil
}

func (s *pgSession) questions() {
	from, to := bufio.NewReaderSize(s.client, 64<<10), bufio.NewWriterSize(s.server, 64<<10)
	if !s.startup(from) {
		return
	}
	for {
		kind, whole, err := message(from)
		if err != nil {
			return
		}
		if cut := s.ends(kind, whole[5:]); cut != nil {
			s.lose(cut, whole, from, to)
			return
		}
		if _, err := to.Write(whole); err != nil {
			return
		}
		if from.Buffered() == 0 {
			s.proxy.wait()
			if to.Flush() != nil {
				return
			}
		}
	}
}

// lose is what remains of the connection from a message on that is cut.
func (s *pgSession) lose(cut *Cut, whole []byte, from *bufio.Reader, to *bufio.Writer) {
	s.withheld.Store(true)
	if cut.After {
		for kind := whole[0]; ; {
			if _, err := to.Write(whole); err != nil {
				return
			}
			if kind == 'Q' || kind == 'S' { // only then it is executed to its end
				break
			}
			var err error
			if kind, whole, err = message(from); err != nil {
				return
			}
		}
		if to.Flush() != nil {
			return
		}
		<-s.answered
	}
	time.Sleep(cut.Silent)
	_, _ = s.client.Close(), s.server.Close()
}

// ends follows the session and returns how it is lost when the message ends a transaction.
func (s *pgSession) ends(kind byte, body []byte) *Cut {
	text := func() (first string) {
		var found bool
		if first, body, found = cutText(body); !found {
			return ""
		}
		return first
	}
	switch kind {
	case 'P':
		name := text()
		s.statements[name] = text()
	case 'B':
		portal := text()
		s.portals[portal] = s.statements[text()]
	case 'E':
		return s.executes(s.portals[text()])
	case 'Q':
		return s.asks(text())
	}
	return nil
}

func cutText(body []byte) (text string, rest []byte, found bool) {
	before, after, found := bytes.Cut(body, []byte{0})
	return string(before), after, found
}

// asks follows a simple query: begins and ends of transactions, and statements without arguments.
func (s *pgSession) asks(statement string) *Cut {
	first, rest, _ := strings.Cut(strings.ToLower(statement), " ")
	switch {
	case first == "begin":
		s.inTx = true
	case first == "rollback" && !strings.HasPrefix(rest, "to "):
		s.inTx = false
	case first == "commit":
		s.inTx = false
		if name, named := strings.CutPrefix(statement, "commit /* "); named {
			return s.at(strings.TrimSuffix(name, " */"))
		}
	default:
		return s.executes(statement)
	}
	return nil
}

func (s *pgSession) executes(statement string) *Cut {
	kinds := Writes(statement)
	for _, kind := range kinds {
		s.wrote(kind)
	}
	if s.inTx || len(kinds) == 0 {
		return nil
	}
	return s.at(kinds[0])
}
