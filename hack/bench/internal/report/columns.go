package report

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Column is a figure in a table.
type Column struct {
	Title string
	Value func(Figures) float64
}

// The columns that scenarios choose from.
var (
	Rate         = Column{"msg/s", func(f Figures) float64 { return f.MessagesPerSecond }}
	P50          = Column{"p50 ms", func(f Figures) float64 { return f.P50Millis }}
	P99          = Column{"p99 ms", func(f Figures) float64 { return f.P99Millis }}
	Max          = Column{"max ms", func(f Figures) float64 { return f.MaxMillis }}
	WAL          = Column{"WAL B/msg", func(f Figures) float64 { return f.WALBytesPerMessage }}
	Transactions = Column{"commits/msg", func(f Figures) float64 { return f.TransactionsPerMessage }}
	DeadRows     = Column{"dead rows/msg", func(f Figures) float64 { return f.DeadRowsPerMessage }}
	ServerCPU    = Column{"server CPU µs/msg", func(f Figures) float64 { return f.ServerCPUMicros }}
	PostgresCPU  = Column{"of it Postgres", func(f Figures) float64 { return f.PostgresCPUMicros }}
	ClientCPU    = Column{"client CPU µs/msg", func(f Figures) float64 { return f.ClientCPUMicros }}
)

// Throughput are the columns of a closed loop.
var Throughput = []Column{Rate, P50, P99, WAL, Transactions, DeadRows, ServerCPU, PostgresCPU, ClientCPU}

// Other is a column of a figure that only some scenario has.
func Other(name string) Column {
	return Column{name, func(f Figures) float64 { return f.Other[name] }}
}

// Number writes a figure with three digits that matter, thousands set apart, and nothing as a dash.
func Number(value float64) string {
	switch size := math.Abs(value); {
	case size == 0 || math.IsNaN(size):
		return "–"
	case size < 0.001:
		return strconv.FormatFloat(value, 'g', 1, 64)
	case size < 0.1:
		return strconv.FormatFloat(value, 'f', 3, 64)
	case size < 10:
		return strconv.FormatFloat(value, 'f', 2, 64)
	case size < 100:
		return strconv.FormatFloat(value, 'f', 1, 64)
	default:
		return thousands(strconv.FormatFloat(math.Round(value), 'f', 0, 64))
	}
}

func thousands(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	var out strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(digit)
	}
	return sign + out.String()
}

// cells is a result as a grid of text, header first.
func cells(r *Result) [][]string {
	header := []string{"system"}
	for _, column := range r.Columns {
		header = append(header, column.Title)
	}
	grid := [][]string{append(header, cmp.Or(r.RatioTitle, "deadletter is"))}
	for _, row := range r.Rows {
		line := []string{row.Name}
		for _, column := range r.Columns {
			text := Number(column.Value(row.Figures))
			if row.Figures.Skipped != "" {
				text = "–"
			}
			line = append(line, text)
		}
		grid = append(grid, append(line, ratioText(r, row)))
	}
	return grid
}

func ratioText(r *Result, row Row) string {
	if row.Figures.Skipped != "" {
		return "not run: " + row.Figures.Skipped
	}
	for _, ratio := range r.Ratios {
		if ratio.Name == row.Name && ratio.Value > 0 {
			return fmt.Sprintf("%.2f ×", ratio.Value)
		}
	}
	return ""
}
