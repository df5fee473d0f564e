package work

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Message is one message of the queue.
type Message struct {
	Subject string // names the lowest ticket in it
	Body    []byte // the rounds, one a line
}

const subjectPrefix = "mr.work."

// Publish queues rounds that were stored together, as one message: each message costs the queue, the worker and us as
// much as several rows. A lost message is no loss: the sweeper finds its tickets and publishes them again.
func (s *Service) Publish(rounds ...materials.Queued) {
	if len(rounds) == 0 {
		return
	}
	lowest := slices.MinFunc(rounds, func(a, b materials.Queued) int { return cmp.Compare(a.Ticket, b.Ticket) }).Ticket
	var body bytes.Buffer
	for _, q := range rounds {
		body.WriteString(q.String())
		body.WriteByte('\n')
	}
	s.deps.Queue.Publish(subjectPrefix+strconv.FormatInt(lowest, 10), body.Bytes())
}

// parseTicket returns the lowest ticket of the message of that subject; ok is false for any other subject.
func parseTicket(subject string) (ticket int64, ok bool) {
	text, found := strings.CutPrefix(subject, subjectPrefix)
	ticket, err := strconv.ParseInt(text, 10, 64)
	return ticket, found && err == nil && strconv.FormatInt(ticket, 10) == text
}

// rounds returns the message's rounds; ok is false for a text that Publish does not write.
func (m Message) rounds() (rounds []round.Round, ok bool) {
	if _, ok := parseTicket(m.Subject); !ok {
		return nil, false
	}
	for line := range strings.Lines(string(m.Body)) {
		r, ok := round.Parse(strings.TrimSuffix(line, "\n"))
		if !ok {
			return nil, false
		}
		rounds = append(rounds, r)
	}
	return rounds, true
}
