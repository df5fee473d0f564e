package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"
)

const (
	chartWidth  = 600
	chartHeight = 96
	barGap      = 3
)

// Bar is one column of a chart: its parts from the bottom up, and what it says when it is pointed at, behind its time.
type Bar struct {
	At    time.Time
	Parts []int64
	Text  string
}

// Bars draws columns as SVG. The n-th class colours the n-th part of each; label is what a screen reader says of the
// whole.
func Bars(label string, classes []string, bars []Bar) template.HTML {
	var b strings.Builder
	open(&b, label)
	largest := int64(1)
	for _, bar := range bars {
		largest = max(largest, sum(bar.Parts))
	}
	width := float64(chartWidth) / float64(max(len(bars), 1))
	for i, bar := range bars {
		x := float64(i) * width
		b.WriteString(`<g>`)
		title(&b, bar.At, bar.Text)
		rect(&b, "ground", x, 0, width-barGap, chartHeight)
		y := float64(chartHeight)
		for part, n := range bar.Parts {
			if n <= 0 {
				continue
			}
			height := max(2, float64(n)/float64(largest)*chartHeight) // one of very many is still seen
			y = max(0, y-height)
			rect(&b, classes[min(part, len(classes)-1)], x, y, width-barGap, height)
		}
		b.WriteString(`</g>`)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // every text in it is escaped
}

// Line draws values over time as SVG, from the oldest to the newest.
func Line(label string, values []float64) template.HTML {
	var b strings.Builder
	open(&b, label)
	largest := 1e-9
	for _, v := range values {
		largest = max(largest, v)
	}
	step := float64(chartWidth) / float64(max(len(values)-1, 1))
	points := make([]string, len(values))
	for i, v := range values {
		points[i] = fmt.Sprintf("%.1f,%.1f", float64(i)*step, chartHeight-1-max(v, 0)/largest*(chartHeight-2))
	}
	line := strings.Join(points, " ")
	fmt.Fprintf(&b, `<polygon class="area" points="0,%d %s %d,%d"/><polyline class="line" points="%s"/></svg>`,
		chartHeight, line, chartWidth, chartHeight, line)
	return template.HTML(b.String()) //nolint:gosec // every text in it is escaped
}

func open(b *strings.Builder, label string) {
	fmt.Fprintf(b, `<svg class="chart" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s">`,
		chartWidth, chartHeight, template.HTMLEscapeString(label))
}

// title writes the time in UTC; the script writes it in the reader's zone.
func title(b *strings.Builder, at time.Time, text string) {
	text = template.HTMLEscapeString(text)
	fmt.Fprintf(b, `<title data-at="%s" data-text="%s">%s: %s</title>`, at.UTC().Format(time.RFC3339), text,
		at.UTC().Format("2006-01-02 15:04 UTC"), text)
}

func rect(b *strings.Builder, class string, x, y, width, height float64) {
	fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, x, y, width, height)
}

func sum(parts []int64) (n int64) {
	for _, part := range parts {
		n += part
	}
	return n
}
