package round

import (
	"bytes"
	"strconv"
	"strings"
)

// Shards is how many parts the suppliers are divided into. Each belongs to one worker at a time, which estimates its
// requests and sends its deliveries. A supplier's shard is stored in its rows and never changes.
const Shards = 32

// ShardOf returns the shard of a supplier. Ids end in random characters.
func ShardOf(supplierID string) int {
	var tail [4]byte
	copy(tail[:], supplierID[max(len(supplierID)-len(tail), 0):])
	h := 0
	for _, c := range tail {
		h = h*37 + int(c)
	}
	return h % Shards
}

// Message wakes the owner of a shard before its next look at the database, which comes a second later at most. A lost
// one costs that second. It names rounds that are to be estimated; without any it says that deliveries of
// the shard may be due.
type Message struct {
	Shard  int
	Rounds []Round
	Paused bool // a receiver of the shard was paused; it names no rounds
}

const (
	subjectRoot = "mr.work."
	pausedBody  = "paused"
)

// Subject returns the subject of the shard's messages.
func Subject(shard int) string { return subjectRoot + strconv.Itoa(shard) }

// Body returns the message's text: its rounds, one a line.
func (m Message) Body() []byte {
	if m.Paused {
		return []byte(pausedBody)
	}
	var body bytes.Buffer
	for _, r := range m.Rounds {
		body.WriteString(r.String())
		body.WriteByte('\n')
	}
	return body.Bytes()
}

// ParseMessage reads a message; ok is false for any that Subject and Body do not make. Rounds of suppliers of other
// shards make it none.
func ParseMessage(subject string, body []byte) (m Message, ok bool) {
	text, found := strings.CutPrefix(subject, subjectRoot)
	shard, err := strconv.Atoi(text)
	if !found || err != nil || shard < 0 || shard >= Shards || strconv.Itoa(shard) != text {
		return Message{}, false
	}
	m.Shard = shard
	if m.Paused = string(body) == pausedBody; m.Paused {
		return m, true
	}
	for line := range strings.Lines(string(body)) {
		r, ok := parse(strings.TrimSuffix(line, "\n"))
		if !ok || !strings.HasSuffix(line, "\n") || ShardOf(r.SupplierID) != shard {
			return Message{}, false
		}
		m.Rounds = append(m.Rounds, r)
	}
	return m, true
}

// Messages returns the messages that name the rounds, one for each shard.
func Messages(rounds []Round) []Message {
	var of [Shards][]Round
	for _, r := range rounds {
		shard := ShardOf(r.SupplierID)
		of[shard] = append(of[shard], r)
	}
	var list []Message
	for shard, rounds := range of {
		if len(rounds) > 0 {
			list = append(list, Message{Shard: shard, Rounds: rounds})
		}
	}
	return list
}
