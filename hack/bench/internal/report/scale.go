package report

import "math"

// scale is an axis from 0 to a round number.
type scale struct {
	end   float64
	ticks []float64
}

// scaleTo makes an axis that reaches a value, with about so many ticks at round numbers.
func scaleTo(highest float64, count int) scale {
	if highest <= 0 || math.IsInf(highest, 0) || math.IsNaN(highest) {
		highest = 1
	}
	step := roundUp(highest / float64(count))
	s := scale{end: math.Ceil(highest/step-1e-9) * step}
	for i := 0; float64(i)*step <= s.end+step/2; i++ {
		s.ticks = append(s.ticks, float64(i)*step)
	}
	return s
}

// part is where a value is on the axis, from 0 to 1.
func (s scale) part(value float64) float64 { return min(max(value/s.end, 0), 1) }

// roundUp is the next 1, 2 or 5 times a power of ten.
func roundUp(value float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(value)))
	for _, factor := range []float64{1, 2, 5} {
		if value <= factor*power*(1+1e-9) {
			return factor * power
		}
	}
	return 10 * power
}
