package tracker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// A load is one transaction: the file is checked and streamed into the table while it is read, and triggers move the
// client's version on when it commits. Listings read what was there before until then. A file with a fault, or a
// process that is killed, changes nothing.

// Loaded is what a load did.
type Loaded struct {
	ClientID string `json:"client_id"`
	View     string `json:"view"` // of the built-in store
	Records  int64  `json:"records"`

	Warnings []string `json:"-"` // of what an operator should know, one sentence each
}

// Load stores the records of a file, all or none, in the built-in store; NDJSON when the file begins with {, else CSV
// with a header. With replace they take the place of the client's records of the load dates that the file has. It makes
// and grants the client's view when it has none. Errors: errs.Invalid names the first 100 bad lines with everything
// that is wrong with them; errs.NotFound: no such client.
func (s *Service) Load(ctx context.Context, clientID string, file io.Reader, replace bool) (Loaded, error) {
	lines, err := newLines(file)
	if err != nil {
		return Loaded{}, err
	}
	client, err := s.store.client(ctx, s.deps.DB.ReaderSQL(ctx), clientID, ``)
	if err != nil {
		return Loaded{}, err
	}
	loaded := Loaded{ClientID: clientID, View: viewName(client.number)}
	names := append([]string{"client_number", columnLoadDate}, fieldNames()...)
	source := func() ([][]byte, error) {
		row, err := lines.next()
		if bad, isBad := errors.AsType[*badLine](err); isBad {
			return nil, lines.refuse(bad)
		}
		return row, err
	}
	lines.prefix = fmt.Appendf(nil, "%d", client.number)
	err = s.deps.DB.Load(ctx, "tracker_records", names, source,
		func(ctx context.Context, store func() (int64, error)) error {
			// One load of a client at a time: ids ascend in the order in which loads become visible.
			alone, err := s.deps.DB.TryLock(ctx, "tracker load "+clientID)
			if err != nil {
				return err
			}
			if !alone {
				return errs.New(errs.Conflict, "Another load of this client is under way; nothing was loaded.")
			}
			maxID, days, err := s.store.loadedBefore(ctx, client.number)
			if err != nil {
				return err
			}
			if loaded.Records, err = store(); err != nil {
				return err
			}
			loaded.Warnings = lines.warnings()
			days = slices.DeleteFunc(days, func(day string) bool { return !lines.days[day] })
			if len(days) > 0 && !replace {
				loaded.Warnings = append(loaded.Warnings, "the client had records of "+daysText(days)+
					" already, which are kept: --replace takes their place")
			} else if err := s.store.remove(ctx, client.number, maxID, days); err != nil {
				return err
			}
			// Only now: no change of the client waits for the file. It is as the changes have left it.
			if client, err = s.store.lockClient(ctx, clientID); err != nil {
				return err
			}
			return s.grantView(ctx, client)
		})
	if err != nil {
		if errs.KindOf(err) == errs.Invalid {
			return Loaded{}, err
		}
		return Loaded{}, fmt.Errorf("load tracker records: %w", err)
	}
	return loaded, nil
}

// warnings returns what was odd in the file.
func (l *lines) warnings() (list []string) {
	if l.narrow > 0 {
		list = append(list, fmt.Sprintf("the file is no UTF-8, it was read as Windows-1252; line %d is the "+
			"first that shows it", l.narrow))
	}
	if l.ahead > 0 {
		list = append(list, fmt.Sprintf("the data_de_ping of %d records is after their dt_carga: "+
			"clocks of devices may be ahead, and the snapshot shows the latest day", l.ahead))
	}
	return list
}

// daysText names some days.
func daysText(days []string) string {
	const most = 5
	if len(days) > most {
		return fmt.Sprintf("%s and %d more load dates", strings.Join(days[:most], ", "), len(days)-most)
	}
	return strings.Join(days, ", ")
}

// grantView makes the view of the client's own records and grants it to a client without any view.
func (s *Service) grantView(ctx context.Context, c Client) error {
	if err := s.store.ensureView(ctx, c.number); err != nil {
		return err
	}
	if len(c.Views) > 0 {
		return nil
	}
	c.Views = []string{viewName(c.number)}
	c.UpdatedAt = s.deps.Now().UTC()
	return s.store.saveClient(ctx, c)
}

// viewName returns the name of the view of a client's records in the built-in store.
func viewName(client int64) string { return fmt.Sprintf("tracker_client_%d", client) }

// LoadField is a field of a record in a file.
type LoadField struct {
	Name, Format string
	Required     bool
}

// LoadFields returns the fields that a file may have, in the order of the specification, the load date first.
func LoadFields() []LoadField {
	return append([]LoadField{{columnLoadDate, kinds[dateField].written, true}},
		lists.Of(fields(), func(f field) LoadField {
			return LoadField{f.name, kinds[f.kind].written, f.name == columnDevice}
		})...)
}

// fieldNames returns the members that a file may have.
func fieldNames() []string {
	return lists.Of(fields(), func(f field) string { return f.name })
}

// place is a field's place in a row of a load, and its kind.
type place struct {
	at   int
	kind kind
}

// loadColumns returns the columns of a load by name: the client comes first, then the load date, then the fields.
func loadColumns() map[string]place {
	list := map[string]place{columnLoadDate: {1, dateField}}
	for i, f := range fields() {
		list[f.name] = place{i + 2, f.kind}
	}
	return list
}
