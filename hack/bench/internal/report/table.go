package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table writes a result for a terminal.
func Table(w io.Writer, r *Result) {
	fmt.Fprintf(w, "\n%s  %s\n\n", r.ID, r.Title)
	grid := cells(r)
	widths := make([]int, len(grid[0]))
	for _, line := range grid {
		for i, cell := range line {
			if i < len(line)-1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	for _, line := range grid {
		var out strings.Builder
		for i, cell := range line {
			pad := strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), 0))
			switch i {
			case 0, len(line) - 1:
				out.WriteString("  " + cell + pad)
			default:
				out.WriteString("  " + pad + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(out.String(), " "))
	}
	for _, goal := range r.Goals {
		fmt.Fprintf(w, "  goal %s: %s (%s)\n", verdict(goal), goal.Text, Number(goal.Got))
	}
	fmt.Fprintln(w)
}

func verdict(goal Goal) string {
	if goal.Met {
		return "met"
	}
	return "MISSED"
}

// Markdown writes results as a document can take them.
func Markdown(w io.Writer, results []*Result) {
	for _, r := range results {
		fmt.Fprintf(w, "### %s: %s\n\n", r.ID, r.Title)
		for i, line := range cells(r) {
			fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
			if i == 0 {
				fmt.Fprintf(w, "| --- |%s --- |\n", strings.Repeat(" ---: |", len(line)-2))
			}
		}
		fmt.Fprintln(w)
		for _, goal := range r.Goals {
			fmt.Fprintf(w, "- goal %s: %s (%s)\n", verdict(goal), goal.Text, Number(goal.Got))
		}
		fmt.Fprintf(w, "\n![%s](%s)\n\n", r.Title, ChartFile(r))
	}
}
