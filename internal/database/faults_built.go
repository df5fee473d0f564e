//go:build faults

// Builds with the tag `faults` are for tests alone.

package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"
)

// machineTime returns a clock that is wrong by what SUPPLYHUB_TEST_CLOCK says, or, after an @, the file that it names.
func machineTime() time.Time {
	text := os.Getenv("SUPPLYHUB_TEST_CLOCK")
	if path, isFile := strings.CutPrefix(text, "@"); isFile {
		content, _ := os.ReadFile(path)
		text = strings.TrimSpace(string(content))
	}
	skew, _ := time.ParseDuration(text)
	return time.Now().Add(skew).Round(0).UTC()
}

// nextVersion returns one more migration where SUPPLYHUB_TEST_NEXT is set: the process is then of the next version.
func nextVersion(migrations fs.FS) []goose.ProviderOption {
	if os.Getenv("SUPPLYHUB_TEST_NEXT") == "" {
		return nil
	}
	files, _ := fs.Glob(migrations, "*.sql") // one a number
	up := &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `ALTER TABLE material_requests ADD COLUMN next text`)
		_, again := tx.ExecContext(ctx, `ALTER TABLE webhook_deliveries ADD COLUMN next text`)
		return errors.Join(err, again)
	}}
	return []goose.ProviderOption{goose.WithGoMigrations(goose.NewGoMigration(int64(len(files)+1), up, nil))}
}

// nameKey is the context key of a transaction's name.
type nameKey struct{}

// naming lets a COMMIT tell its transaction's name: a proxy before PostgreSQL cuts there.
func naming(ctx context.Context, on *gorm.DB, name string) *gorm.DB {
	return on.WithContext(context.WithValue(ctx, nameKey{}, name))
}

// commitOf returns the statement that commits; empty: the driver's own.
func commitOf(ctx context.Context) string {
	name, named := ctx.Value(nameKey{}).(string)
	if !named {
		return ""
	}
	return "commit /* " + name + " */"
}

// failing returns the errors that a COMMIT of the name fails with, before or after it is made. The test at the socket
// SUPPLYHUB_TEST_COMMITS decides; without it all succeed.
func failing(name string, nested bool) (before, after error) {
	socket := os.Getenv("SUPPLYHUB_TEST_COMMITS")
	if nested || socket == "" {
		return nil, nil
	}
	test := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
	answer, err := test.Get("http://test/?" + url.Values{"kind": {name}}.Encode())
	if err != nil {
		return nil, nil // the test has ended
	}
	defer answer.Body.Close()
	lost := fmt.Errorf("test: COMMIT: %w", io.ErrUnexpectedEOF)
	switch answer.Header.Get("Lost") {
	case "before":
		return lost, nil
	case "after":
		return nil, lost
	}
	return nil, nil
}
