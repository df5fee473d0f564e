package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/scoreboard/sample"
)

func scoreboardCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sample", Short: "serve both football providers with sample matches of today and tomorrow",
		Args: cobra.NoArgs}
	addr := cmd.Flags().String("addr", "127.0.0.1:7002", "address to listen on")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		note := fmt.Sprintf(`to be given to the api:
  PULSE_API_KEY=any SPORTMONKS_API_TOKEN=any FALLBACK_API_KEY=any \
  SPORTMONKS_BASE_URL=http://%s/sportmonks BALLDONTLIE_BASE_URL=http://%s/balldontlie`, *addr, *addr)
		return serveHere(cmd, *addr, sample.Handler(time.Now), note)
	}
	return group("scoreboard", "try the scoreboard out", cmd)
}
