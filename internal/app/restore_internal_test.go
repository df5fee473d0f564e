package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/supplyhub/supplyhub/internal/config"
	_ "github.com/supplyhub/supplyhub/internal/database/sqlite"
)

// watched calls then when a file of that name has its place.
type watched struct {
	context.Context
	file string
	then func() error
}

func (w watched) Err() error {
	if _, err := os.Lstat(w.file); err == nil {
		return w.then()
	}
	return w.Context.Err()
}

func TestRestore_that_breaks_off_is_refused_by_serve_until_it_is_made_again(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	a, err := Build(t.Context(), &config.Config{DataDir: t.TempDir()}, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "b.tar")
	whole, err := a.Backup(t.Context(), backup)
	if err := errors.Join(err, a.Close()); err != nil {
		t.Fatal(err)
	}
	for i, name := range whole.Holds[:len(whole.Holds)-1] {
		for how, then := range map[string]func(dir string) error{
			"stopped": func(string) error { return context.Canceled },
			"a file is there already": func(dir string) error {
				err := os.WriteFile(filepath.Join(dir, whole.Holds[i+1]), nil, 0o600)
				if err != nil && !errors.Is(err, os.ErrExist) {
					return err
				}
				return nil
			},
		} {
			t.Run(fmt.Sprintf("%s behind %s", how, name), func(t *testing.T) {
				t.Parallel()
				to := &config.Config{DataDir: filepath.Join(t.TempDir(), "to")}
				ctx := watched{t.Context(), filepath.Join(to.DataDir, name), func() error { return then(to.DataDir) }}
				if _, err := Restore(ctx, to, log, backup); err == nil {
					t.Fatal("it did not break off")
				}
				if notRestoring(to) == nil {
					t.Error("a service would start on half of it")
				}
				if again, err := Restore(t.Context(), to, log, backup); err != nil || len(again.Holds) != len(whole.Holds) {
					t.Errorf("made again: %v, %v", again.Holds, err)
				}
				if err := notRestoring(to); err != nil {
					t.Errorf("a whole one is refused: %v", err)
				}
			})
		}
	}
	t.Run("stopped before the first file", func(t *testing.T) {
		t.Parallel()
		to := &config.Config{DataDir: filepath.Join(t.TempDir(), "to")}
		ctx := watched{t.Context(), filepath.Join(to.DataDir, restoring), func() error { return context.Canceled }}
		if _, err := Restore(ctx, to, log, backup); err == nil || notRestoring(to) == nil {
			t.Errorf("%v, and a service would start on an empty DATA_DIR", err)
		}
	})
}
