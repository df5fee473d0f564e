package app

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/tracker"
)

// examineTrackers reads each view that a tracker client is granted, and says what is not shown of it.
func (d *doctor) examineTrackers(ctx context.Context) {
	const name = "tracker views"
	trackers, err := tracker.New(tracker.Deps{DB: d.db, Log: d.log, Now: time.Now})
	if err != nil {
		d.say(broken, name, "", "they cannot be read: %v", err)
		return
	}
	defer trackers.Close()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	ailments, err := trackers.Ailments(ctx)
	if err != nil {
		d.say(broken, name, "repair the database first", "they cannot be looked at: %v", err)
		return
	}
	whole := 0
	for _, view := range slices.Sorted(maps.Keys(ailments)) {
		if len(ailments[view]) == 0 {
			whole++
		}
		for _, ailment := range ailments[view] {
			d.say(warning, "tracker view "+view, "change the view, or `api tracker client set-views ID`", "%s", ailment)
		}
	}
	d.say(well, name, "", "%d are shown whole", whole)
}
