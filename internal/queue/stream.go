package queue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The stream on the server, and the names of subjects there. All of it follows from the configuration: two
// installations with a NATS_STREAM each can share an account. The stream keeps what was published for a minute, so
// long a worker may be cut off, and drops the oldest when it is full. Settings that an operator added (replicas'
// placement, descriptions) stay; keep.go makes the server have the rest.

const keptFor = time.Minute

// sealed returns why a stream that takes and gives nothing any more cannot be used.
func (c Config) sealed() error {
	return fmt.Errorf("the stream %[1]s is sealed: delete it (nats stream rm %[1]s), it is made again", c.Stream)
}

// ForeignError says whose the stream is that is not ours, and what to do.
type ForeignError struct{ Text, Todo string }

// Error returns both.
func (e ForeignError) Error() string { return e.Text + ": " + e.Todo }

// leaderless returns why a stream takes nothing for which a server of a cluster answers although none leads it (NATS
// 2.15 does so at times).
func (c Config) leaderless(info *jetstream.StreamInfo) error {
	if info.Cluster == nil || info.Cluster.Leader != "" {
		return nil
	}
	return fmt.Errorf("the stream %s has no leader, its cluster may have no quorum", c.Stream)
}

// foreign returns an error when the stream belongs to another program or to another installation of this one: its
// retention and storage cannot be changed, and what it keeps for longer, or under other subjects, is not ours to drop.
// One like ours that names no installation was made by hand for us.
func (c Config) foreign(have jetstream.StreamConfig) error {
	want := c.streamConfig()
	program := func(what string, have, want any) error {
		return ForeignError{fmt.Sprintf("the stream %s was made by another program: its %s, not %s", c.Stream,
			fmt.Sprintf(what, have), want), "choose another NATS_STREAM"}
	}
	owner := have.Metadata[installationKey]
	switch {
	case have.Retention != want.Retention:
		return program("retention is %s", have.Retention, want.Retention)
	case have.Storage != want.Storage:
		return program("storage is %s", have.Storage, want.Storage)
	case !slices.Equal(have.Subjects, want.Subjects):
		return program("subjects are %s", strings.Join(have.Subjects, ", "), strings.Join(want.Subjects, ", "))
	case owner == "" && have.MaxAge != want.MaxAge:
		return program("maximum age is %s", have.MaxAge, want.MaxAge)
	case owner != "" && c.Installation != "" && owner != c.Installation:
		return ForeignError{
			fmt.Sprintf("the stream %s belongs to installation %s, and this is %s", c.Stream, owner, c.Installation),
			fmt.Sprintf("choose another NATS_STREAM, or delete it (nats stream rm %s) when that installation's database "+
				"no longer exists", c.Stream)}
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
	have.Duplicates = want.Duplicates
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

// streamConfig returns the stream as it is made.
func (c Config) streamConfig() jetstream.StreamConfig {
	stream := jetstream.StreamConfig{
		Name:              c.Stream,
		Description:       "which suppliers have work, for a minute",
		Subjects:          []string{c.subjects()},
		Retention:         jetstream.LimitsPolicy,
		Storage:           jetstream.FileStorage,
		Replicas:          c.Replicas,
		Discard:           jetstream.DiscardOld,
		MaxMsgsPerSubject: -1,
		MaxMsgs:           maxMessages,
		MaxMsgSize:        -1,
		MaxBytes:          c.MaxBytes,
		MaxAge:            keptFor,
		Duplicates:        keptFor, // no message has an id; the server refuses more than MaxAge
	}
	if c.Installation != "" {
		stream.Metadata = map[string]string{installationKey: c.Installation}
	}
	return stream
}

// consumerConfig returns a worker's consumer. The client names it: a worker has several in its life.
func (c Config) consumerConfig(subjects []string, after time.Time) jetstream.ConsumerConfig {
	config := jetstream.ConsumerConfig{
		Description:       "of one worker, which makes another one when this one fails",
		DeliverPolicy:     jetstream.DeliverNewPolicy,
		AckPolicy:         jetstream.AckNonePolicy,
		InactiveThreshold: forgottenFor,
		MemoryStorage:     true,
		Replicas:          1,
	}
	for _, subject := range subjects {
		config.FilterSubjects = append(config.FilterSubjects, c.outside(subject))
	}
	if !after.IsZero() {
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, new(after.Add(1))
	}
	return config
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
	const room = "its disk may be full; when there is room again, restart NATS or delete the stream"
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
