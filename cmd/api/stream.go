package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/supplyhub/supplyhub/internal/app"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// streamPart is how many rows a streamed table is aligned by.
const streamPart = 500

// stream is a list that is printed while it is read, in constant memory: an array, or tables of equal columns.
type stream struct {
	out      io.Writer
	progress *progress // is cleared before rows are printed: both may be the same terminal
	json     bool
	columns  columns
	rows     []json.RawMessage // not printed yet
	printed  int
}

func newStream(cmd *cobra.Command, columns columns) *stream {
	o, _ := cmd.Flags().GetString("output")
	return &stream{out: cmd.OutOrStdout(), progress: newProgress(cmd), json: o == "json", columns: columns}
}

func (s *stream) add(row any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(row); err != nil {
		return err
	}
	if s.rows = append(s.rows, text.Bytes()); len(s.rows) < streamPart {
		return nil
	}
	return s.flush()
}

func (s *stream) flush() (err error) {
	s.progress.end()
	first := s.printed == 0
	if s.json {
		for _, row := range s.rows {
			before := ",\n  "
			if s.printed == 0 {
				before = "[\n  "
			}
			var indented bytes.Buffer
			if err := json.Indent(&indented, bytes.TrimSpace(row), "  ", "  "); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(s.out, "%s%s", before, &indented); err != nil {
				return err
			}
			s.printed++
		}
		s.rows = s.rows[:0]
		return nil
	}
	err = writeRows(s.out, s.rows, s.columns, "", first)
	s.printed += len(s.rows)
	s.rows = s.rows[:0]
	return err
}

// end prints what is left; after a failure it leaves the list without an end, so that it is not taken for whole.
func (s *stream) end(failed error) error {
	if failed != nil {
		return nil
	}
	if len(s.rows) > 0 || (s.printed == 0 && !s.json) {
		if err := s.flush(); err != nil {
			return err
		}
	}
	end := ""
	switch {
	case s.json && s.printed == 0:
		end = "[]\n"
	case s.json:
		end = "\n]\n"
	}
	_, err := io.WriteString(s.out, end)
	return err
}

// limitFlag adds --limit.
func limitFlag(cmd *cobra.Command) *int {
	return cmd.Flags().Int("limit", defaultLimit, "how many at most; 0: all of them")
}

// limited checks --limit first.
func limited(limit *int, list func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if *limit < 0 {
			return errors.New("--limit must be at least 0")
		}
		return list(cmd, args)
	}
}

// supplierOf returns the id of the supplier that is named, by its id or a name that only one has; an empty one is none
// that was asked for.
func supplierOf(ctx context.Context, a *app.App, named string) (string, error) {
	if named == "" {
		return "", nil
	}
	id, err := a.SupplierID(ctx, named)
	if errs.KindOf(err) != errs.NotFound {
		return id, err
	}
	suppliers, listErr := a.Suppliers.ListSuppliers(ctx)
	if listErr != nil {
		return "", listErr
	}
	var near []string
	for _, s := range suppliers {
		near = append(near, s.ID, s.Name)
	}
	return "", errs.New(errs.NotFound, "There is no supplier "+named+didYouMean(named, near...))
}
