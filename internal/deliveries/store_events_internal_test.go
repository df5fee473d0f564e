package deliveries

import (
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

func TestBody_of_one_event_is_that_of_many_in_whichever_partition_it_is(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	ctx, d := t.Context(), process(db, time.Now())
	list := advanced(ctx, t, db, 2)
	for _, p := range list {
		partitionRows(ctx, t, db, p, 1, 0)
	}
	if err := db.From(ctx).Exec(`UPDATE webhook_events SET body = convert_to(uid::text, 'UTF8')`).Error; err != nil {
		t.Fatal(err)
	}
	var got struct{ Events, Same, Missing int }
	err := db.From(ctx).Raw(`SELECT count(*) AS events,
			count(*) FILTER (WHERE ` + d.BodyOfOne(`''`, `uid`, `round`) + ` = convert_to(uid::text, 'UTF8')) AS same,
			count(*) FILTER (WHERE ` + d.BodyOfOne(`''`, `uid + 1`, `round`) + ` IS NULL) AS missing
		FROM webhook_events`).Scan(&got).Error
	if err != nil || got.Events != len(list) || got.Same != len(list) || got.Missing != len(list) {
		t.Errorf("%+v of %d partitions: %v", got, len(list), err)
	}
}
