package report

import (
	"os"
	"path/filepath"
	"strings"
)

// Chart says how a result is drawn.
type Chart struct {
	// Unit labels the axis of values.
	Unit string
	// Value is what a bar shows; nil draws lines of messages per second over time.
	Value func(Figures) float64
	// Mark is the second at which lines change, and MarkText why.
	Mark     int
	MarkText string
}

// ChartFile is the name of a result's chart.
func ChartFile(r *Result) string { return r.ID + ".svg" }

// Draw writes the chart of a result into dir.
func Draw(dir string, r *Result) error {
	var picture *svg
	if r.Chart.Value == nil {
		picture = lines(r)
	} else {
		picture = bars(r)
	}
	return os.WriteFile(filepath.Join(dir, ChartFile(r)), picture.bytes(), 0o644)
}

// The geometry that both kinds of chart share, in pixels.
const (
	chartWidth   = 860
	chartMargin  = 24
	titleHeight  = 64
	legendHeight = 28
)

// colour tells ours, its variants and its peers apart.
func (r Role) colour() string {
	switch r {
	case Ours:
		return "#c2410c"
	case Variant:
		return "#fb923c"
	case Peer:
		return "#64748b"
	}
	return "#64748b"
}

// palette is for lines, which must be told apart: the first is ours.
var palette = []string{"#c2410c", "#f59e0b", "#db2777", "#2563eb", "#0f766e", "#7c3aed", "#64748b", "#111827"}

const (
	barHeight  = 26
	barPitch   = 36
	labelWidth = 190
	valueWidth = 90
)

// bars draws a bar for each system that ran.
func bars(r *Result) *svg {
	shown := make([]Row, 0, len(r.Rows))
	highest := 0.0
	for _, row := range r.Rows {
		if row.Figures.Skipped == "" {
			shown = append(shown, row)
			highest = max(highest, r.Chart.Value(row.Figures))
		}
	}
	axis := scaleTo(highest, 5)
	height := titleHeight + len(shown)*barPitch + 40
	picture := newSVG(chartWidth, height)
	picture.heading(r)
	left, right := chartMargin+labelWidth, chartWidth-chartMargin-valueWidth
	at := func(value float64) float64 { return float64(left) + axis.part(value)*float64(right-left) }
	bottom := titleHeight + len(shown)*barPitch
	for _, tick := range axis.ticks {
		picture.line(at(tick), titleHeight, at(tick), float64(bottom), "grid")
		picture.text(at(tick), float64(bottom+18), "tick middle", axisNumber(tick))
	}
	for i, row := range shown {
		top, value := float64(titleHeight+i*barPitch+5), r.Chart.Value(row.Figures)
		picture.text(float64(left-10), top+18, "label end", row.Name)
		picture.rect(float64(left), top, max(at(value)-float64(left), 1), barHeight, row.Role.colour())
		picture.text(max(at(value), float64(left))+8, top+18, "value", Number(value))
	}
	return picture
}

const linesHeight = 300

// lines draws the messages per second of each system over time.
func lines(r *Result) *svg {
	highest, longest := 0.0, 1
	var shown []Row
	for _, row := range r.Rows {
		if len(row.Figures.PerSecond) > 1 {
			shown = append(shown, row)
			longest = max(longest, len(row.Figures.PerSecond))
			for _, rate := range row.Figures.PerSecond {
				highest = max(highest, rate)
			}
		}
	}
	vertical, horizontal := scaleTo(highest, 5), scaleTo(float64(longest), 8)
	legend := (len(shown) + 2) / 3 * legendHeight
	picture := newSVG(chartWidth, titleHeight+linesHeight+50+legend)
	picture.heading(r)
	left, right, bottom := float64(chartMargin+60), float64(chartWidth-chartMargin), float64(titleHeight+linesHeight)
	x := func(second float64) float64 { return left + second/float64(longest)*(right-left) }
	y := func(rate float64) float64 { return bottom - vertical.part(rate)*linesHeight }
	for _, tick := range vertical.ticks {
		picture.line(left, y(tick), right, y(tick), "grid")
		picture.text(left-8, y(tick)+4, "tick end", axisNumber(tick))
	}
	for _, tick := range horizontal.ticks {
		if tick <= float64(longest) {
			picture.text(x(tick), bottom+18, "tick middle", axisNumber(tick)+" s")
		}
	}
	if r.Chart.Mark > 0 {
		at := x(float64(r.Chart.Mark))
		picture.line(at, titleHeight, at, bottom, "mark")
		picture.text(at+6, titleHeight+14, "tick", r.Chart.MarkText)
	}
	for i, row := range shown {
		colour := palette[i%len(palette)]
		points := make([][2]float64, len(row.Figures.PerSecond))
		for second, rate := range row.Figures.PerSecond {
			points[second] = [2]float64{x(float64(second) + 0.5), y(rate)}
		}
		picture.path(points, colour, row.Role == Peer)
		column, line := float64(i%3), float64(i/3)
		top := bottom + 40 + line*legendHeight
		picture.rect(left+column*260, top-9, 18, 6, colour)
		picture.text(left+column*260+26, top, "label", row.Name)
	}
	return picture
}

// axisNumber is Number without noughts at the end, and with one for nothing.
func axisNumber(value float64) string {
	if value == 0 {
		return "0"
	}
	text := Number(value)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
