package materials

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

const leanEvery = 5 * time.Second // between two looks whether rows may be lean

// leanRows remembers whether rows may be written in the forms that the version before cannot read. Once they may, they
// always may.
type leanRows struct {
	mu     sync.Mutex
	yes    bool
	looked time.Time
}

func (l *leanRows) allowed(ctx context.Context, db *database.DB, log *slog.Logger, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.yes || now.Sub(l.looked).Abs() < leanEvery {
		return l.yes
	}
	yes, err := db.LeanRows(ctx)
	if err != nil {
		log.WarnContext(ctx, "rows are written as the version before reads them", "error", err)
	}
	l.yes, l.looked = yes, now
	return yes
}
