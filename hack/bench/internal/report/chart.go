package report

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
