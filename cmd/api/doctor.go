package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
)

// checkup reads as one line a check.
type checkup struct{ app.Checkup }

func (c checkup) writeText(w io.Writer) error { return c.WriteText(w) }

func doctorCommand() *cobra.Command {
	return &cobra.Command{Use: "doctor", Short: "check everything that the api needs, and say what to do",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := app.DoctorAPI(cmd.Context(), app.Environment())
			if err := print(cmd, checkup{found}); err != nil {
				return failure{err}
			}
			if !found.OK {
				return failure{errors.New("something is broken")}
			}
			return nil
		}}
}
