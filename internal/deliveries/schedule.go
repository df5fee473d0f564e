package deliveries

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// jitter is how far a wait may differ from its step. It keeps deliveries that failed together from coming back
// together.
const jitter = 0.2

// Answer is what became of one attempt: a status, or err.
type Answer struct {
	Status     int
	RetryAfter string
	Body       []byte
	Location   string // of the answer, as it may be shown
	Page       bool   // it is one for people to read
	Err        error
}

// Outcome is what an answer means for its delivery. Pending says: again at Next. It is decided once, in the worker that
// made the call, and stored by e; a crash before that loses the answer, not the attempt, which counts.
type Outcome struct {
	Status Status
	Next   time.Time
}

// Schedule is the waits between the attempts of a series, which therefore has one attempt more. A series begins with
// the delivery (a, b) or with a redelivery of what had ended (h). Its attempts are counted where they begin, not where
// they end, so those that were interrupted are among them.
type Schedule []time.Duration

// Attempts returns how many attempts a series has.
func (s Schedule) Attempts() int64 { return int64(len(s)) + 1 }

// Outcome judges a destination's answer to attempt number series of its series. random is in [0, 1). The last one that
// was interrupted has no answer to be judged: the claim finds the series used up and makes the delivery dead (c).
func (s Schedule) Outcome(destination string, a Answer, series int64, now time.Time, random float64) Outcome {
	if verdict := Classify(destination, a); verdict != Pending {
		return Outcome{Status: verdict, Next: now}
	}
	return s.Again(series, a.RetryAfter, now, random)
}

// Again is Outcome for an answer that does not end the delivery by itself.
func (s Schedule) Again(series int64, retryAfter string, now time.Time, random float64) Outcome {
	if series >= s.Attempts() {
		return Outcome{Status: Dead, Next: now}
	}
	return Outcome{Status: Pending, Next: now.Add(s.wait(series, retryAfter, now, random))}
}

// Classify returns what an answer means by itself: Delivered, Failed, or Pending for "try again". Only the destination
// of the service's own endpoint means a refusal: the service wrote both sides. The author of a receiver gets
// its path, its secret or its redirects wrong first, and repairs them: of its answers only 410 is final.
func Classify(destination string, a Answer) Status {
	switch {
	case a.Err != nil:
		return Pending
	case a.Status >= 200 && a.Status < 300:
		return Delivered
	case destination != OwnEndpoint && a.Status == http.StatusGone:
		return Failed
	case destination == OwnEndpoint && refuses(a.Status):
		return Failed
	default:
		return Pending
	}
}

// refuses reports whether the own endpoint answers so to what it will never take.
func refuses(status int) bool {
	later := []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}
	return status >= 300 && status < 500 && !slices.Contains(later, status)
}

// wait returns the step after attempt number series, ±20 %, or longer when the receiver asks for it, up to the longest
// step.
func (s Schedule) wait(series int64, retryAfter string, now time.Time, random float64) time.Duration {
	step := s[series-1]
	jittered := time.Duration(float64(step) * (1 - jitter + 2*jitter*random))
	return max(jittered, parseRetryAfter(retryAfter, now, slices.Max(s)))
}

// parseRetryAfter reads seconds or an HTTP date; anything else, or past, is 0, and nothing is longer than longest.
func parseRetryAfter(text string, now time.Time, longest time.Duration) time.Duration {
	text = strings.TrimSpace(text)
	if text != "" && strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(longest/time.Second) {
			return longest
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), longest)
}
