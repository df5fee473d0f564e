package doctor

import (
	"context"
	"errors"

	"github.com/supplyhub/supplyhub/internal/queue"
)

// Health is what the process on this machine says of itself, in /readyz.
type Health struct {
	Role, Address string // api or worker, and where its operator's listener is
	Queue         string // what it says of NATS
	Err           error  // it says nothing, or that it is not ready
	NotReady      bool
}

// Queue looks at NATS as the process of that configuration would use it, and at what that process says. takes: it is a
// worker.
func (c *Checkup) Queue(ctx context.Context, cfg queue.Config, takes bool, process func(context.Context) Health) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if cfg.URL == "" {
		c.embedded(process(ctx))
		return
	}
	found, err := queue.Examine(ctx, cfg, takes)
	if err != nil {
		c.Say(Broken, "nats", "start it, or correct NATS_URL and its credentials", "it is not reached: %v", err)
		return
	}
	c.answers("nats", queue.Untested(found.Version), queue.OldestNATS, "%s answers", found.Server)
	c.process(process(ctx))
	c.Encrypted("nats encryption", found.Plain, "use tls:// in NATS_URL, and NATS_CA")
	const permissions = "give the user the permissions of deployments/nats-users.conf"
	foreign, isForeign := errors.AsType[queue.ForeignError](found.Stream)
	switch {
	case errors.Is(found.Stream, queue.ErrAbsent):
		c.Say(Warning, "nats stream", "start the api or a worker: each makes it", "%v", found.Stream)
		return
	case isForeign:
		c.Say(Broken, "nats stream", foreign.Todo, "%s", foreign.Text)
		return
	case found.Stream != nil:
		c.Say(Broken, "nats stream", permissions+", or repair the server", "%v", found.Stream)
		return
	}
	c.Well("nats stream", "it can be read")
	todo := "repair what the error names; workers find the work in the database meanwhile"
	if found.Lacks {
		todo = permissions
	}
	c.Tried(found.Messages, "nats messages", todo, "", "this user may do all that the process does")
}

// process prints what the process that runs on this machine, if one does, sees of the queue.
func (c *Checkup) process(h Health) {
	switch {
	case h.NotReady:
		c.Say(Broken, "process", "repair what its /readyz names", "the %s at %s is %v", h.Role, h.Address, h.Err)
	case h.Err != nil:
		c.Well("process", "no %s answers at %s", h.Role, h.Address)
	case h.Queue != Well:
		c.Say(Warning, "process", "repair what it names; workers find the work in the database meanwhile", "the %s at %s: %s",
			h.Role, h.Address, h.Queue)
	default:
		c.Well("process", "the %s at %s: work travels by the queue", h.Role, h.Address)
	}
}

// embedded prints what the api sees of JetStream, which runs in it.
func (c *Checkup) embedded(h Health) {
	switch {
	case h.Err != nil:
		c.Say(Broken, "nats", "start `api serve`, or set ADMIN_ADDR as it has it", "JetStream runs inside the api at %s: %v",
			h.Address, h.Err)
	case h.Queue != Well:
		c.Say(Broken, "nats", "make room in DATA_DIR and restart the api; its log says more", "inside the api at %s: %s",
			h.Address, h.Queue)
	default:
		c.Well("nats", "JetStream inside the api at %s answers", h.Address)
	}
}
