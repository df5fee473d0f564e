package main

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/terminal"
	"github.com/supplyhub/supplyhub/internal/tracker"
)

func trackerCommand() *cobra.Command {
	client := subject{clientOf, "api tracker client COMMAND Fleet"}
	clients := group("client", "manage the clients of the tracker listings, by their ids or names", trackerCreate(),
		trackerList(), trackerSetViews(client),
		client.rotation("rotate-key", "make a new key, shown once",
			func(ctx context.Context, a *app.App, id string, overlap time.Duration) (made credentials, err error) {
				made.APIKey, err = a.Trackers.RotateKey(ctx, id, overlap)
				return made, err
			}),
		client.command("deactivate", "refuse the client's keys",
			func(ctx context.Context, a *app.App, id string) (any, error) {
				return a.Trackers.SetActive(ctx, id, false)
			}),
		client.command("activate", "let a deactivated client in again",
			func(ctx context.Context, a *app.App, id string) (any, error) {
				return a.Trackers.SetActive(ctx, id, true)
			}))
	return group("tracker", "device tracker listings: clients and loads", clients, trackerLoad())
}

func trackerCreate() *cobra.Command {
	var name, views string
	cmd := &cobra.Command{Use: "create", Short: "create a client; its key is shown once", Args: cobra.NoArgs,
		Example: "  api tracker client create --name Acme"}
	cmd.RunE = operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
		created, err := a.Trackers.CreateClient(ctx, name, config.List(views))
		noteViews(ctx, cmd, a, views, err)
		return created, err
	})
	cmd.Flags().StringVar(&name, "name", "", "name of the client")
	cmd.Flags().StringVar(&views, "views", "", "views that it may read, separated by commas; the first is read")
	return required(cmd, "name")
}

// noteViews writes to standard error what keeps the views that were just granted from being listed.
func noteViews(ctx context.Context, cmd *cobra.Command, a *app.App, views string, err error) {
	if err != nil {
		return
	}
	for _, note := range a.Trackers.ViewNotes(ctx, config.List(views)) {
		cmd.PrintErrln("note: " + note)
	}
}

func trackerList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "list clients", Args: cobra.NoArgs,
		RunE: operate(func(ctx context.Context, a *app.App, _ []string) (any, error) {
			list, err := a.Trackers.ListClients(ctx)
			return table{list, aged(a.Now(), "id", "active", "created_at:AGE", "name", "views")}, err
		})}
}

func trackerSetViews(client subject) *cobra.Command {
	var views string
	var cmd *cobra.Command
	cmd = client.command("set-views", "replace a client's views",
		func(ctx context.Context, a *app.App, id string) (any, error) {
			changed, err := a.Trackers.SetViews(ctx, id, config.List(views))
			noteViews(ctx, cmd, a, views, err)
			return changed, err
		})
	cmd.Example += " --views fleet.today"
	cmd.Flags().StringVar(&views, "views", "", "views that it may read, separated by commas; the first is read")
	return required(cmd, "views")
}

func trackerLoad() *cobra.Command {
	var client string
	var replace bool
	cmd := &cobra.Command{Use: "load FILE", Short: "load records from NDJSON or CSV, all or none; - reads standard input",
		Args: cobra.ExactArgs(1), Long: loadHelp(),
		Example: "  api tracker load records.ndjson --client Fleet\n" +
			"  gunzip -c records.csv.gz | api tracker load - --client trk_0aB1cD2eF3gH4iJ5"}
	cmd.RunE = operate(func(ctx context.Context, a *app.App, args []string) (any, error) {
		file := terminal.Input(ctx, func() (io.ReadCloser, error) {
			if args[0] == "-" {
				return io.NopCloser(cmd.InOrStdin()), nil
			}
			return os.Open(args[0])
		})
		defer file.Close()
		id, err := clientOf(ctx, a, client)
		if err != nil {
			return nil, err
		}
		loaded, err := a.Trackers.Load(ctx, id, file, replace)
		for _, warning := range loaded.Warnings {
			cmd.PrintErrln("warning: " + warning)
		}
		return loaded, err
	})
	cmd.Flags().StringVar(&client, "client", "", "the client whose records these are, by id or name")
	cmd.Flags().BoolVar(&replace, "replace", false, "take the place of the client's records of the file's load dates")
	return required(cmd, "client")
}

// loadHelp names every field by its format.
func loadHelp() string {
	var text strings.Builder
	text.WriteString(`Loads records, all or none, into the built-in store, and makes and grants the client's view when it
has none.

The file is NDJSON, one object a line, when it begins with {; else CSV with a header, in UTF-8, UTF-16 or Windows-1252.
Every field may be absent or null (in CSV: empty, \N or NULL) but imei and dt_carga, the day of the load.
CSV is separated by commas, semicolons or tabs. With semicolons or tabs it is as spreadsheets in Brazil write it:
numbers may have a decimal comma, days may be DD/MM/YYYY with a time behind, booleans VERDADEIRO and FALSO.
A field has at most 1 MiB, a whole record 16 MiB.
Records of a load date that was loaded before are kept, unless --replace is given.
The first 100 bad lines are named with everything that is wrong with them.
`)
	byFormat := map[string][]string{}
	var formats []string
	for _, f := range tracker.LoadFields() {
		name := f.Name
		if f.Required {
			name += " (required)"
		}
		if byFormat[f.Format] == nil {
			formats = append(formats, f.Format)
		}
		byFormat[f.Format] = append(byFormat[f.Format], name)
	}
	for _, format := range formats {
		text.WriteString("\n" + format + ":\n  " + strings.Join(byFormat[format], ", ") + "\n")
	}
	return text.String()
}
