package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func sample() *Result {
	r := &Result{
		ID: "P1", Title: "One & <all>", Columns: []Column{Rate, P99, DeadRows},
		Chart: Chart{Unit: "messages/s", Value: Rate.Value},
		Rows: []Row{
			{Name: "deadletter", Role: Ours, Figures: Figures{MessagesPerSecond: 12345.6, P99Millis: 9.87}},
			{Name: "deadletter, more", Role: Variant, Figures: Figures{MessagesPerSecond: 20000}},
			{Name: "river", Role: Peer, Figures: Figures{MessagesPerSecond: 5000, DeadRowsPerMessage: 2}},
			{Name: "gone", Role: Peer, Figures: Figures{Skipped: "not installed"}},
		},
	}
	r.CompareRates()
	r.AtLeast("twice river", 2, 2.47)
	r.AtMost("p99 at most 5 ms", 5, 9.87)
	return r
}

func TestResultAsJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := sample()
	other.ID = "P9"
	for _, results := range [][]*Result{{other}, {sample()}} {
		if err := Write(dir, results...); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(filepath.Join(dir, ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]struct {
		Ours     Figures            `json:"ours"`
		Variants map[string]Figures `json:"variants"`
		Peers    map[string]Figures `json:"peers"`
		Ratios   map[string]float64 `json:"ratios"`
		Goals    []Goal             `json:"goals"`
	}
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 {
		t.Fatalf("got %d scenarios, want that of the run before too", len(got))
	}
	p1 := got["P1"]
	if p1.Ours.MessagesPerSecond != 12345.6 || p1.Peers["river"].MessagesPerSecond != 5000 ||
		p1.Variants["deadletter, more"].MessagesPerSecond != 20000 || p1.Peers["gone"].Skipped != "not installed" {
		t.Errorf("got %+v", p1)
	}
	if len(p1.Ratios) != 1 || p1.Ratios["river"] != 12345.6/5000 {
		t.Errorf("ratios: %v", p1.Ratios)
	}
	if len(p1.Goals) != 2 || !p1.Goals[0].Met || p1.Goals[1].Met {
		t.Errorf("goals: %+v", p1.Goals)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	Table(&out, sample())
	for _, want := range []string{
		"deadletter        12,346    9.87              –", "2.47 ×", "not run: not installed", "goal met: twice river",
		"goal MISSED: p99 at most 5 ms (9.87)",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestMarkdownTableIsRectangular(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	Markdown(&out, []*Result{sample()})
	rows := 0
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		rows++
		if got := strings.Count(line, "|"); got != 6 {
			t.Errorf("%d bars, want 6: %s", got, line)
		}
	}
	if rows != 6 {
		t.Errorf("%d lines of table, want header, rule and 4 rows", rows)
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{
		0: "–", 0.00041: "0.0004", 0.031: "0.031", 0.5: "0.50", 9.876: "9.88", 12.34: "12.3", 999.5: "1,000", 1234567: "1,234,567",
		-1234: "-1,234",
	} {
		if got := Number(value); got != want {
			t.Errorf("%v: got %s, want %s", value, got, want)
		}
	}
}

func TestRatio(t *testing.T) {
	t.Parallel()
	if got := Ratio(6, 3); got != 2 {
		t.Errorf("got %v, want 2", got)
	}
	if got := Ratio(6, 0); got != 0 {
		t.Errorf("nothing to compare with: got %v, want 0", got)
	}
}

func TestScaleEndsAtARoundNumber(t *testing.T) {
	t.Parallel()
	for highest, want := range map[float64]float64{12345: 15000, 100: 100, 0.7: 0.8, 0: 1, 99: 100, 1: 1} {
		axis := scaleTo(highest, 5)
		if diff := axis.end - want; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%v: ends at %v, want %v", highest, axis.end, want)
		}
		if last := axis.ticks[len(axis.ticks)-1]; last-axis.end > 1e-9 || axis.part(highest) > 1 {
			t.Errorf("%v: last tick %v of %v", highest, last, axis.end)
		}
	}
}

func TestChartsAreWellFormed(t *testing.T) {
	t.Parallel()
	overTime := sample()
	overTime.ID = "P4"
	overTime.Chart = Chart{Unit: "messages/s", Mark: 2, MarkText: "held from here"}
	overTime.Rows[0].Figures.PerSecond = []float64{10, 20, 15, 5}
	overTime.Rows[2].Figures.PerSecond = []float64{3, 4}
	dir := t.TempDir()
	for _, test := range []struct {
		result             *Result
		want, rects, paths int
	}{
		// The background and a bar for each row that ran; or the background, two colours of the legend and two lines.
		{sample(), 1, 4, 0},
		{overTime, 1, 3, 2},
		{&Result{ID: "P0", Chart: Chart{Value: Rate.Value}}, 1, 1, 0},
		{&Result{ID: "P00"}, 1, 1, 0},
	} {
		if err := Draw(dir, test.result); err != nil {
			t.Fatal(err)
		}
		elements := count(t, filepath.Join(dir, ChartFile(test.result)))
		if elements["svg"] != test.want || elements["rect"] != test.rects || elements["path"] != test.paths {
			t.Errorf("%s: got %v", test.result.ID, elements)
		}
	}
}

func count(t *testing.T, path string) map[string]int {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	elements := map[string]int{}
	for decoder := xml.NewDecoder(file); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return elements
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
}
