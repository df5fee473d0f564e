package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// unaudited returns the commands that change nothing, or nothing of a supplier's or a client's access.
func unaudited() []string {
	return strings.Split("serve,backup,restore,migrate,keys generate,secrets generate,supplier list,receiver list,"+
		"rate list,request list,request show,"+
		"delivery list,delivery show,tracker client list,settings list,verify,listen,scoreboard sample,healthcheck,doctor,"+
		"top,notify test,help,completion bash,completion fish,completion powershell,completion zsh", ",")
}

func TestAudit_knows_every_command(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, path := range unaudited() {
		known[path] = true
	}
	for path := range audited() {
		known[path] = true
	}
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			walk(child)
		}
		if _, path, _ := strings.Cut(cmd.CommandPath(), " "); !cmd.HasSubCommands() && !known[path] {
			t.Errorf("api %s is neither audited nor named as changing no access", path)
		}
		delete(known, strings.TrimPrefix(cmd.CommandPath(), "api "))
	}
	walk(root)
	for path := range known {
		if !strings.HasPrefix(path, "completion") && path != "help" {
			t.Errorf("there is no command %s", path)
		}
	}
}

// commander runs commands on a database of its own.
type commander struct {
	*testing.T
	secrets []string
}

// run runs a command and returns what it printed; lines is how many audit lines it must write.
func (o *commander) run(lines int, args ...string) map[string]any {
	o.Helper()
	var stdout, stderr bytes.Buffer
	code := run(o.Context(), append(args, "-o", "json"), &stdout, &stderr)
	for line := range strings.Lines(stderr.String()) {
		var l struct {
			Level, Msg, Action, By, From string
			Flags                        map[string]string
		}
		if json.Unmarshal([]byte(line), &l) != nil || l.Msg != "audit" {
			continue
		}
		lines--
		if l.Level != "INFO" || l.Action == "" || l.By != "command" || l.From == "" {
			o.Errorf("%q: %s", args, line)
		}
		for _, secret := range o.secrets {
			if secret != "" && strings.Contains(line, secret) {
				o.Errorf("%q shows a secret: %s", args, line)
			}
		}
	}
	if lines != 0 {
		o.Errorf("%q: %d audit lines are missing (exit %d):\n%s", args, lines, code, &stderr)
	}
	var result map[string]any
	_ = json.Unmarshal(stdout.Bytes(), &result)
	for _, member := range []string{"api_key", "webhook_secret", "url"} {
		if value, ok := result[member].(string); ok {
			o.secrets = append(o.secrets, value)
		}
	}
	return result
}

func TestAudit_every_command_that_changes_access_is_one_line_without_a_secret(t *testing.T) {
	t.Setenv("DATA_DIR", t.TempDir())
	t.Setenv("DATABASE_URL", "")
	t.Setenv("LOG_FORMAT", "json")
	t.Setenv("WEBHOOK_ALLOW_PRIVATE", "true")
	o := &commander{T: t, secrets: []string{"hidden-in-the-path"}}
	o.run(0, "migrate")
	const receiver = "http://127.0.0.1:1/hidden-in-the-path"
	id, _ := o.run(1, "supplier", "create", "--name", "Acme", "--webhook-url", receiver)["id"].(string)
	o.run(0, "supplier", "list")
	o.run(1, "supplier", "update", id, "--webhook-url", receiver+"2")
	for _, command := range []string{"rotate-key", "rotate-webhook-secret", "portal-link", "revoke-sessions", "pause",
		"resume", "deactivate", "activate"} {
		o.run(1, "supplier", command, id)
	}
	o.run(0, "supplier", "deactivate", "sup_unknown")
	client, _ := o.run(1, "tracker", "client", "create", "--name", "Fleet")["id"].(string)
	o.run(1, "tracker", "client", "set-views", client, "--views", "")
	o.run(1, "tracker", "client", "rotate-key", client)
	o.run(1, "tracker", "client", "deactivate", client)
	o.run(0, "delivery", "redeliver", "--status", "dead", "--yes") // there is none
	o.run(0, "request", "reopen", id, "1")                         // there is none
	o.run(1, "retention", "run", "--days", "30")
	o.run(0, "retention", "run", "--before", "2999-01-01")
	o.run(1, "settings", "set", "scoreboard.daily_quota", "80")
	o.run(1, "settings", "unset", "scoreboard.daily_quota")
	o.run(1, "tracker", "client", "activate", client)
}
