package portal

import (
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/web"
)

const lostShown = 5

// overview answers: is everything well, and if not, what is to be done?
type overview struct {
	Receiver           receivers.ReceiverView
	Day                tally
	Week               tally
	Waiting            int64 // now, whenever they were made
	DayChart           template.HTML
	WeekChart          template.HTML
	Lost               []deliveries.Sent
	DayStart, WeekFrom time.Time
}

// More reports whether more waits than is counted.
func (o overview) More() bool { return o.Waiting >= deliveries.MostWaiting }

// tally sums buckets up. Peak is the most in one of them: the full height of the chart.
type tally struct{ Delivered, Pending, Lost, Peak int64 }

// All returns how many there were.
func (t tally) All() int64 { return t.Delivered + t.Pending + t.Lost }

// Overview handles GET /portal. It is about the receiver: who may not see that is redirected to the first other page.
func (s *Service) Overview(c *gin.Context) error {
	switch links := frame(c, "", nil).Navigation; {
	case len(links) == 0:
		return errs.New(errs.Forbidden, "None of your permissions opens a page of the portal.")
	case links[0].Path != "":
		c.Redirect(http.StatusSeeOther, Base+links[0].Path)
		return nil
	}
	ctx, supplier := c.Request.Context(), caller.SupplierID(c)
	receiver, err := s.deps.Receiver.Receiver(ctx, supplier)
	if err != nil {
		return err
	}
	history, err := s.deps.Deliveries.History(ctx, supplier)
	if err != nil {
		return err
	}
	waiting, err := s.deps.Deliveries.Waiting(ctx, supplier)
	if err != nil {
		return err
	}
	lost, err := s.lost(c)
	if err != nil {
		return err
	}
	o := overview{Receiver: receiver, Waiting: waiting, Lost: lost, Day: sum(history.Hours), Week: sum(history.Quarters)}
	o.DayChart = s.chart(c, s.site.Text(c, "Deliveries of the last 24 hours"), o.Day, history.Hours)
	o.WeekChart = s.chart(c, s.site.Text(c, "Deliveries of the last 7 days"), o.Week, history.Quarters)
	o.DayStart, o.WeekFrom = history.Hours[0].Start, history.Quarters[0].Start
	return s.render(c, "overview", "", o)
}

// lost returns the newest deliveries that need attention.
func (s *Service) lost(c *gin.Context) ([]deliveries.Sent, error) {
	var lost []deliveries.Sent
	for _, status := range []deliveries.Status{deliveries.Dead, deliveries.Failed} {
		items, _, err := s.deps.Deliveries.List(c.Request.Context(), caller.SupplierID(c),
			deliveries.SentFilter{Status: status}, httpapi.ListQuery{Limit: lostShown})
		if err != nil {
			return nil, err
		}
		lost = append(lost, items...)
	}
	slices.SortFunc(lost, func(a, b deliveries.Sent) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	return lost[:min(len(lost), lostShown)], nil
}

func sum(buckets []deliveries.Bucket) (t tally) {
	for _, b := range buckets {
		t.Delivered, t.Pending, t.Lost = t.Delivered+b.Delivered, t.Pending+b.Pending, t.Lost+b.Lost
		t.Peak = max(t.Peak, b.Delivered+b.Pending+b.Lost)
	}
	return t
}

func (s *Service) chart(c *gin.Context, title string, t tally, buckets []deliveries.Bucket) template.HTML {
	words := func(delivered, pending, lost int64) string {
		return s.site.Text(c, "%d delivered, %d pending, %d given up", delivered, pending, lost)
	}
	bars := lists.Of(buckets, func(b deliveries.Bucket) web.Bar {
		return web.Bar{
			At: b.Start, Parts: []int64{b.Delivered, b.Pending, b.Lost}, Text: words(b.Delivered, b.Pending, b.Lost),
		}
	})
	return web.Bars(title+": "+words(t.Delivered, t.Pending, t.Lost), []string{"good", "busy", "bad"}, bars)
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}
