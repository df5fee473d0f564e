package main

import (
	"fmt"
	"html"
	"os"
	"runtime"
	"strings"
	"time"
)

// plotFile is where `make bench` draws its figures.
const plotFile = "deployments/bench/bench.svg"

// plot is a bar for each figure: how much of its goal it reaches. 1 is the goal.
type plot struct{ bars []bar }

type bar struct {
	text    string
	reached float64
}

// atLeast notes a figure that should be as large as the goal.
func (p *plot) atLeast(name string, figure, goal float64) {
	p.bars = append(p.bars, bar{fmt.Sprintf("%s: %.2f, wanted at least %g", name, figure, goal), figure / goal})
}

// atMost notes a figure that should be as small as the goal.
func (p *plot) atMost(name string, figure, goal float64) {
	p.bars = append(p.bars, bar{fmt.Sprintf("%s: %.2f, wanted at most %g", name, figure, goal), goal / figure})
}

func (p *plot) write(file string) error {
	const width, left, row, most = 900, 20, 34, 2.0
	unit := (width - 2*left) / most
	height := 70 + row*len(p.bars)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `+
		`font-family="sans-serif" font-size="13">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="24" font-size="15">`+
		`make bench: how much of its goal each figure reaches (the line is the goal)</text>`+"\n", left)
	fmt.Fprintf(&b, `<text x="%d" y="44" fill="#555">%s</text>`+"\n", left, html.EscapeString(machine()))
	for i, bar := range p.bars {
		y, colour := 58+row*i, "#2a7d4f"
		if bar.reached < 1 {
			colour = "#b4532a"
		}
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.0f" height="%d" fill="%s" fill-opacity="0.35"/>`+"\n", left, y,
			min(bar.reached, most)*unit, row-8, colour)
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`+"\n", left+6, y+17, html.EscapeString(bar.text))
	}
	fmt.Fprintf(&b, `<line x1="%.0f" x2="%.0f" y1="54" y2="%d" stroke="#333" stroke-dasharray="4 3"/>`+"\n</svg>\n", left+
		unit, left+unit, height-12)
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// machine names what the figures are of.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores shared by load, api, worker, PostgreSQL and NATS, %s, %s", model, runtime.NumCPU(),
		runtime.Version(), time.Now().Format(time.DateOnly))
}
