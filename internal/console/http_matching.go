package console

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/web"
)

const (
	mostCounted = 100_000 // above it a dialog says "more than"
	atOnce      = 200     // rows that one transaction touches
	onePart     = 400     // rows that one call touches, fewer when a second is over: progress is seen, can be stopped
	oneAnswer   = time.Second
)

// matching is an action on everything that a filter chooses. some does a part of it.
type matching struct {
	count func(ctx context.Context, status, supplier string) (int64, error)
	some  func(ctx context.Context, status, supplier string, until time.Time) (n int64, more bool, err error)
}

// runMatching asks first, with the count. Then each call does a part and says how far it is. The page, or a program,
// calls again until nothing is left; to stop, it no longer calls. Rows that match only after the first call stay as
// they are.
func (s *Service) runMatching(c *gin.Context, b bulk) error {
	ctx, status, supplier := c.Request.Context(), c.PostForm("status"), c.PostForm("supplier_id")
	total, err := s.wanted(c, b)
	if err != nil {
		return err
	}
	until := s.deps.Now()
	if micros, err := strconv.ParseInt(c.PostForm("until"), 10, 64); err == nil {
		until = time.UnixMicro(micros)
	}
	if c.PostForm("confirm") == "" && c.GetHeader("Authorization") == "" {
		question := s.site.Count(c, b.ask, b.askMany, total)
		if total > mostCounted {
			question = s.site.Text(c, "%s There are more than %d.", s.site.Count(c, b.ask, b.askMany, mostCounted),
				int64(mostCounted))
		}
		return s.ask(c, b, question, nil, map[string]any{"status": status, "supplier_id": supplier,
			"until": until.UnixMicro(), "total": total})
	}
	before, _ := strconv.ParseInt(c.PostForm("done"), 10, 64) // absent: this is the first call
	done, more, err := s.part(ctx, b.matching, status, supplier, until, before)
	logctx.Note(ctx, slog.String("status", status), slog.String("supplier_id", supplier),
		slog.Time("until", until), slog.Int64("count", done-before))
	if err != nil {
		return err
	}
	s.cache.forget()
	s.site.Answer(c, 200, web.Outcome{Message: s.site.Count(c, b.done, b.doneMany, done), More: more, Done: done,
		Total: max(total, done), Until: until.UnixMicro()})
	return nil
}

// part does the next part of an action and returns what is done by then.
func (s *Service) part(ctx context.Context, m *matching, status, supplier string, until time.Time, before int64) (
	done int64, more bool, err error) {
	done, more = before, true
	for end := time.Now().Add(oneAnswer); more && done < before+onePart && time.Now().Before(end) &&
		ctx.Err() == nil; {
		var n int64
		if n, more, err = m.some(ctx, status, supplier, until); err != nil {
			return done, false, err
		}
		done += n
	}
	return done, more, nil
}

// wanted returns how many match: counted by the first call, and brought by those that follow it.
func (s *Service) wanted(c *gin.Context, b bulk) (int64, error) {
	if total, err := strconv.ParseInt(c.PostForm("total"), 10, 64); err == nil {
		return total, nil
	}
	return b.matching.count(c.Request.Context(), c.PostForm("status"), c.PostForm("supplier_id"))
}
