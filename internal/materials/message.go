package materials

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Work is one message of the queue.
type Work struct {
	Subject    string // names its request, or the first of several and how many they are
	Body       []byte // of several: their subjects, one a line
	Deliveries int    // how many times the queue has handed it out, this one included
}

// Subject is the name of a request's work on the queue.
func Subject(supplierID string, id int64) string {
	return "mr." + supplierID + "." + strconv.FormatInt(id, 10)
}

// publish queues the work of requests that were stored together, as one message: each message costs the queue, the worker
// and us as much as several rows. A lost message is no loss: the sweeper publishes its requests one by one, and the queue
// refuses a subject that it holds.
func (s *Service) publish(keys ...requestKey) {
	if len(keys) == 0 {
		return
	}
	subject := Subject(keys[0].SupplierID, keys[0].ID)
	if len(keys) == 1 {
		s.deps.Publisher.Publish(subject, nil)
		return
	}
	var body bytes.Buffer
	for _, key := range keys {
		body.WriteString(Subject(key.SupplierID, key.ID))
		body.WriteByte('\n')
	}
	s.deps.Publisher.Publish(subject+"."+strconv.Itoa(len(keys)), body.Bytes())
}

// keys are the message's requests; ok is false for a text that publish does not write.
func (w Work) keys() (keys []requestKey, ok bool) {
	if len(w.Body) == 0 {
		key, ok := parseSubject(w.Subject)
		return []requestKey{key}, ok
	}
	for line := range strings.Lines(string(w.Body)) {
		key, ok := parseSubject(strings.TrimSuffix(line, "\n"))
		if !ok {
			return nil, false
		}
		keys = append(keys, key)
	}
	return keys, true
}

// parseSubject is the inverse of Subject; ok is false for any other text.
func parseSubject(subject string) (key requestKey, ok bool) {
	rest, found := strings.CutPrefix(subject, "mr.")
	supplierID, number, split := strings.Cut(rest, ".")
	if !found || !split || supplierID == "" || !utf8.ValidString(supplierID) {
		return requestKey{}, false
	}
	if strings.ContainsFunc(supplierID, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return requestKey{}, false
	}
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != number {
		return requestKey{}, false
	}
	return requestKey{supplierID, id}, true
}
