package sending_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

func TestWorkers_follow_a_clock_that_was_set_back_while_none_was_alive(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{idle: true})
		r.add(event("acme", 1, 1))
		ahead := time.Now().Add(time.Hour).UnixMicro()
		r.exec(`UPDATE webhook_deliveries SET next_attempt_at = ?, updated_at = ?`, ahead, ahead)
		r.exec(`UPDATE webhook_receivers SET due_at = ?`, ahead)
		ctx, cancel := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() { r.RunSetBack(ctx) })
		defer following.Wait()
		defer cancel()
		r.start()
		wait.Until(t, "both destinations are called", func() bool { return len(r.own.got()) > 0 && len(r.acme.got()) > 0 })
	})
}
