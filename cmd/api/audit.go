package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// audited returns the commands that change a supplier's or a client's access, and what the log calls it.
func audited() map[string]string {
	return map[string]string{
		"supplier create": "supplier.create", "supplier update": "supplier.update",
		"supplier rotate-key": "supplier.rotate-key", "supplier rotate-webhook-secret": "receiver.rotate-secret",
		"supplier portal-link": "portal.link", "supplier revoke-sessions": "session.revoke",
		"supplier pause": "receiver.pause", "supplier resume": "receiver.resume",
		"supplier deactivate": "supplier.deactivate", "supplier activate": "supplier.activate",
		"request reopen": "request.reopen", "delivery redeliver": "delivery.redeliver",
		"tracker load": "tracker.load", "tracker client create": "tracker.create",
		"tracker client set-views": "tracker.set-views", "tracker client rotate-key": "tracker.rotate-key",
		"tracker client deactivate": "tracker.deactivate", "tracker client activate": "tracker.activate",
		"settings set": "settings.set", "settings unset": "settings.unset",
		"rate set": "rate.set", "rate remove": "rate.remove", "retention run": "retention.run",
	}
}

// auditOf returns what the log calls the command; empty: it changes nothing.
func auditOf(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return audited()[path]
}

// givenFlags returns the flags of a command, without the address of a receiver: it may hold a secret.
func givenFlags(cmd *cobra.Command) map[string]string {
	flags := map[string]string{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "output":
		case "webhook-url":
			flags[f.Name] = "given"
		default:
			flags[f.Name] = f.Value.String()
		}
	})
	return flags
}
