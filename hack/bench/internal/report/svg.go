package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
)

// svg is a picture that is being written. It has a background of its own, so that it reads on a dark page too.
type svg struct {
	out bytes.Buffer
}

const svgHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img">
<style>
text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: #1f2937 }
.title { font-size: 16px; font-weight: 600 }
.unit, .tick { font-size: 12px; fill: #6b7280 }
.label { font-size: 13px }
.value { font-size: 13px; font-weight: 600 }
.end { text-anchor: end }
.middle { text-anchor: middle }
.grid { stroke: #e5e7eb; stroke-width: 1 }
.mark { stroke: #111827; stroke-width: 1; stroke-dasharray: 4 3 }
</style>
<rect width="%[1]d" height="%[2]d" rx="8" fill="#ffffff"/>
`

func newSVG(width, height int) *svg {
	s := &svg{}
	fmt.Fprintf(&s.out, svgHead, width, height)
	return s
}

// bytes ends the picture.
func (s *svg) bytes() []byte { return append(bytes.Clone(s.out.Bytes()), "</svg>\n"...) }

// heading is the result's title, and below it the unit of its values.
func (s *svg) heading(r *Result) {
	fmt.Fprintf(&s.out, "<title>%s</title>\n", escape(r.ID+" "+r.Title))
	s.text(chartMargin, 28, "title", r.ID+"  "+r.Title)
	s.text(chartMargin, 48, "unit", r.Chart.Unit)
}

func (s *svg) text(x, y float64, class, text string) {
	fmt.Fprintf(&s.out, `<text x="%.1f" y="%.1f" class="%s">%s</text>`+"\n", x, y, class, escape(text))
}

func (s *svg) rect(x, y, width, height float64, fill string) {
	fmt.Fprintf(&s.out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="3" fill="%s"/>`+"\n",
		x, y, width, height, fill)
}

func (s *svg) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&s.out, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`+"\n", x1, y1, x2, y2, class)
}

// path joins points; dashed lines stand back.
func (s *svg) path(points [][2]float64, stroke string, dashed bool) {
	var d strings.Builder
	for i, point := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&d, "%s%.1f %.1f ", command, point[0], point[1])
	}
	dash := ""
	if dashed {
		dash = ` stroke-dasharray="6 3"`
	}
	fmt.Fprintf(&s.out, `<path d="%s" fill="none" stroke="%s" stroke-width="2" stroke-linejoin="round"%s/>`+"\n",
		strings.TrimSpace(d.String()), stroke, dash)
}

func escape(text string) string {
	var out strings.Builder
	// A strings.Builder takes everything.
	_ = xml.EscapeText(&out, []byte(text))
	return out.String()
}
