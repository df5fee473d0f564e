package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strconv"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// The audit log has one line for each action that changes who may do what or where webhooks go, whichever way it was
// done: over the API, in the portal, in the console, by a command. It names who did it, to what, and whether it
// succeeded, and never a secret.

// AuditCommand runs a command that changes a supplier's or a client's access, and writes its line. A command that is
// refused changes nothing. args and flags are what it was given, without a value that may hold a secret.
func AuditCommand(ctx context.Context, log *slog.Logger, action string, args []string, flags map[string]string,
	command func(context.Context) (any, error)) (any, error) {
	ctx, audit := logctx.WithAudit(ctx)
	logctx.KnownBy(ctx, "command")
	if len(args) > 0 {
		logctx.Note(ctx, slog.Any("ids", args))
	}
	if len(flags) > 0 {
		logctx.Note(ctx, slog.Any("flags", flags))
	}
	result, err := command(ctx)
	if kind := errs.KindOf(err); err == nil || kind == errs.Internal || kind == errs.Unavailable {
		audit.Write(ctx, log, action, operatingAs(), err != nil)
	}
	return result, err
}

// operatingAs returns who runs this process, and where.
func operatingAs() string {
	name := "uid " + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname() // empty when the system has none
	return fmt.Sprintf("%s@%s", name, host)
}
