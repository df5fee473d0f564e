package materials

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/round"
)

// unheard publishes nothing.
type unheard struct{}

func (unheard) Publish(...round.Round) {}

func TestRow_that_a_lost_process_holds_delays_its_own_caller_alone(t *testing.T) {
	t.Parallel()
	receive := func(t *testing.T, s *Service, id int64) error {
		return s.receive(t.Context(), receiptItem{requestKey: requestKey{"acme", id}, own: true, uid: id + 1, number: 1,
			estimates: "[]", unavailable: "[]"})
	}
	held := func(id int64) string {
		return fmt.Sprintf(`INSERT INTO material_requests (`+intakeColumns+`)
			VALUES ('acme', %d, 'enqueued', '', '', '', '', NULL, %d, 0, NULL, 1, 1)`, id, id+1)
	}
	for name, test := range map[string]struct {
		stored bool
		frozen string
		call   func(*testing.T, *Service, int64) error
	}{
		"its event": {true, `SELECT 1 FROM material_requests WHERE id = 0 FOR UPDATE`, receive},
		"an event by Bearer": {true, `SELECT 1 FROM material_requests WHERE id = 0 FOR UPDATE`,
			func(t *testing.T, s *Service, id int64) error {
				return s.receive(t.Context(), receiptItem{requestKey: requestKey{"acme", id}, webhookID: fmt.Sprint("msg_", id),
					postedAt: 1, estimates: "[]", unavailable: "[]"})
			}},
		"the same request again": {false, strings.Replace(held(0), "NULL, 1,", "NULL, 1::bigint << 40,", 1),
			func(t *testing.T, s *Service, id int64) error {
				return s.Submit(t.Context(), Request{SupplierID: "acme", ID: id, ShopCode: "SP-1"})
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := databasetest.Open(t, database.Postgres)
			s := New(Deps{DB: db, Now: db.Now, Outbox: noEvents{}, Publisher: unheard{}, Flushers: 1})
			t.Cleanup(s.Close)
			const others = 300 // more than a batch has
			for id := int64(0); test.stored && id <= others; id++ {
				if err := db.From(t.Context()).Exec(held(id)).Error; err != nil {
					t.Fatal(err)
				}
			}
			databasetest.Freeze(t, db, test.frozen)
			var all sync.WaitGroup
			for id := range int64(others + 1) {
				all.Go(func() {
					err := test.call(t, s, id)
					if id == 0 && errs.KindOf(err) != errs.Unavailable {
						t.Errorf("the held one: %v", err)
					}
					if id > 0 && err != nil {
						t.Errorf("another one: %v", err)
					}
				})
			}
			all.Wait()
		})
	}
}
