package queue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Names on the server follow from NATS_STREAM, so that two installations can share an account. The stream is a work
// queue: one message a subject, kept in a file until it is acknowledged, new ones refused when it is full. Settings
// that an operator added (replicas' placement, descriptions) stay.

const maxWaiting = 512 // pulls of all workers that wait; the server's own default

// The stream and its consumer on the server, and the names of subjects there. All of it follows from the
// configuration; keep.go makes the server have it.

// sealed returns why a stream that takes and gives nothing any more cannot be used.
func (c Config) sealed() error {
	return fmt.Errorf("the stream %[1]s is sealed: delete it (nats stream rm %[1]s), it is made again", c.Stream)
}

// foreignError says whose the stream is that is not ours.
type foreignError struct{ text string }

func (e foreignError) Error() string { return e.text }

// foreign returns an error when the stream belongs to another program or to another installation of this one: its
// retention and storage cannot be changed, and messages under other subjects are not ours to drop. One that names no
// installation is ours: it was made by hand.
func (c Config) foreign(have jetstream.StreamConfig) error {
	want := c.streamConfig()
	program := func(what string, have, want any) error {
		return foreignError{fmt.Sprintf("the stream %s was made by another program: its %s, not %s; "+
			"choose another NATS_STREAM", c.Stream, fmt.Sprintf(what, have), want)}
	}
	owner := have.Metadata[installationKey]
	switch {
	case have.Retention != want.Retention:
		return program("retention is %s", have.Retention, want.Retention)
	case have.Storage != want.Storage:
		return program("storage is %s", have.Storage, want.Storage)
	case !slices.Equal(have.Subjects, want.Subjects):
		return program("subjects are %s", strings.Join(have.Subjects, ", "), strings.Join(want.Subjects, ", "))
	case owner != "" && c.Installation != "" && owner != c.Installation:
		return foreignError{fmt.Sprintf("the stream %[1]s belongs to installation %[2]s, and this is %[3]s: choose another "+
			"NATS_STREAM, or delete it (nats stream rm %[1]s) when that installation's database no longer exists",
			c.Stream, owner, c.Installation)}
	default:
		return nil
	}
}

// adjusted returns have with our values in it; additions of the server or its operator stay.
func (c Config) adjusted(have jetstream.StreamConfig) jetstream.StreamConfig {
	want := c.streamConfig()
	have.Description, have.Subjects = want.Description, want.Subjects
	have.Retention, have.Storage, have.Replicas = want.Retention, want.Storage, want.Replicas
	have.Discard, have.DiscardNewPerSubject, have.MaxMsgsPerSubject = want.Discard, want.DiscardNewPerSubject,
		want.MaxMsgsPerSubject
	have.MaxMsgs, have.MaxBytes, have.MaxAge, have.MaxMsgSize = want.MaxMsgs, want.MaxBytes, want.MaxAge, want.MaxMsgSize
	have.NoAck, have.SubjectTransform, have.ConsumerLimits = want.NoAck, want.SubjectTransform, want.ConsumerLimits
	if c.Installation != "" {
		have.Metadata = maps.Clone(have.Metadata) // the server's own entries stay
		if have.Metadata == nil {
			have.Metadata = map[string]string{}
		}
		have.Metadata[installationKey] = c.Installation
	}
	return have
}

// streamConfig keeps one message a subject: a subject that is queued or being worked on is not queued again.
func (c Config) streamConfig() jetstream.StreamConfig {
	stream := jetstream.StreamConfig{
		Name:                 c.Stream,
		Description:          "material requests that wait for a worker",
		Subjects:             []string{c.subjects()},
		Retention:            jetstream.WorkQueuePolicy,
		Storage:              jetstream.FileStorage,
		Replicas:             c.Replicas,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
		MaxMsgsPerSubject:    1,
		MaxMsgs:              maxMessages,
		MaxMsgSize:           -1,
		MaxBytes:             c.MaxBytes,
	}
	if c.Installation != "" {
		stream.Metadata = map[string]string{installationKey: c.Installation}
	}
	return stream
}

// adjustedConsumer returns have with our values in it; its storage and the server's additions stay.
func (c Config) adjustedConsumer(have jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	want := c.consumerConfig()
	want.Name, want.Description, want.Metadata = have.Name, have.Description, have.Metadata
	want.Replicas, want.MemoryStorage, want.SampleFrequency = have.Replicas, have.MemoryStorage, have.SampleFrequency
	want.PauseUntil = have.PauseUntil // resume sees to it
	return want
}

// consumerConfig returns the one consumer that all workers share. Messages come again without an end: a round that
// cannot be estimated is put off in its row, not here.
func (c Config) consumerConfig() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       consumerName,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       c.AckWait,
		MaxDeliver:    -1,
		MaxWaiting:    maxWaiting,
		MaxAckPending: maxAckPending,
	}
}

// subjects returns those of the stream.
func (c Config) subjects() string { return strings.ToLower(c.Stream) + ".>" }

// outside returns a subject as the server knows it, inside as it is known here: two installations may share an account.
func (c Config) outside(subject string) string {
	return strings.ToLower(c.Stream) + "." + strings.TrimPrefix(subject, root)
}

// inside returns a subject of the server as it is known here.
func (c Config) inside(subject string) string {
	return root + strings.TrimPrefix(subject, strings.ToLower(c.Stream)+".")
}

// explainRefusal returns in an operator's words why nothing that is published is taken.
func (c Config) explainRefusal(err error) error {
	const storeFailed, sealed = 10077, 10109
	const room = "it may be full (NATS_MAX_BYTES) or its disk; when there is room again, restart NATS or delete the stream"
	api, _ := errors.AsType[*jetstream.APIError](err)
	switch {
	case api == nil, api.ErrorCode == storeFailed: // a server without room may answer nothing
		return fmt.Errorf("the stream %s takes no message, %s: %w", c.Stream, room, err)
	case api.ErrorCode == sealed:
		return c.sealed()
	default:
		return fmt.Errorf("the stream %s takes no message: %w", c.Stream, err)
	}
}

// queuedAlready reports whether err refuses a second message of one subject: other refusals have the same code.
func queuedAlready(err error) bool {
	const storeFailed, perSubject = 10077, "maximum messages per subject exceeded"
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == storeFailed && api.Description == perSubject
}

// peerSubjects begin the subjects of messages between workers. No stream keeps them: a lost one's receiver finds out by
// itself.
const peerSubjects = "workers."

// peerSubject names the installation too: of two on one server, each may have a worker of that number.
func (c Config) peerSubject(worker int64) string {
	subject := peerSubjects + c.Stream + "."
	if c.Installation != "" {
		subject += c.Installation + "."
	}
	return subject + strconv.FormatInt(worker, 10)
}
