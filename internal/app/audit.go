package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strconv"

	"github.com/supplyhub/supplyhub/internal/console"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/portal"
)

// The audit log has one line for each action that changes who may do what or where webhooks go, whichever way it was
// done: over the API, in the portal, in the console, by a command. It names who did it, to what, and whether it
// succeeded, and never a secret.

// audited returns the routes of the public listener that change a supplier's access or receiver, and what the log calls
// it.
func audited() map[string]string {
	const receiver, deliveries = "/api/webhook-receiver", "/api/webhook-deliveries"
	return map[string]string{
		"POST /api/external-auth/revoke":           "session.revoke",
		"POST /api/portal-sessions":                "portal.link",
		"PUT " + receiver:                          "receiver.set",
		"DELETE " + receiver:                       "receiver.remove",
		"POST " + receiver + "/rotate-secret":      "receiver.rotate-secret",
		"POST " + receiver + "/pause":              "receiver.pause",
		"POST " + receiver + "/resume":             "receiver.resume",
		"POST " + deliveries + "/:id/redeliver":    "delivery.redeliver",
		"POST " + deliveries + "/redeliver":        "delivery.redeliver",
		"GET " + portal.Base + "/sign-in":          "portal.sign-in",
		"POST " + portal.Base + "/sign-in":         "portal.sign-in",
		"POST " + portal.Base + "/sign-out":        "portal.sign-out",
		"POST " + portal.Base + "/receiver":        "receiver.set",
		"POST " + portal.Base + "/receiver/remove": "receiver.remove",

		"POST " + portal.Base + "/receiver/rotate-secret":   "receiver.rotate-secret",
		"POST " + portal.Base + "/receiver/pause":           "receiver.pause",
		"POST " + portal.Base + "/receiver/resume":          "receiver.resume",
		"POST " + portal.Base + "/deliveries/:id/redeliver": "delivery.redeliver",
		"POST " + portal.Base + "/deliveries/redeliver":     "delivery.redeliver",
	}
}

// auditedConsole returns the routes of the console that do.
func auditedConsole() map[string]string {
	return map[string]string{
		"POST " + console.Base + "/token":                "console.sign-in",
		"POST " + console.Base + "/sign-out":             "console.sign-out",
		"POST " + console.Base + "/deliveries/redeliver": "delivery.redeliver",
		"POST " + console.Base + "/requests/reopen":      "request.reopen",
		"POST " + console.Base + "/receivers/pause":      "receiver.pause",
		"POST " + console.Base + "/receivers/resume":     "receiver.resume",
		"POST " + console.Base + "/suppliers/activate":   "supplier.activate",
		"POST " + console.Base + "/suppliers/deactivate": "supplier.deactivate",

		"POST " + console.Base + "/suppliers/portal-link":   "portal.link",
		"POST " + console.Base + "/suppliers/create":        "supplier.create",
		"POST " + console.Base + "/suppliers/rotate-key":    "supplier.rotate-key",
		"POST " + console.Base + "/suppliers/rotate-secret": "receiver.rotate-secret",
		"POST " + console.Base + "/suppliers/concurrency":   "supplier.update",
		"POST " + console.Base + "/rates/set":               "rate.set",
		"POST " + console.Base + "/rates/remove":            "rate.remove",
		"POST " + console.Base + "/scoreboard/set":          "settings.set",
	}
}

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
