package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Role tells what a row is to the scenario.
type Role int

// The roles of rows.
const (
	// Ours is the product in the scenario's main setting.
	Ours Role = iota
	// Variant is the product in another setting.
	Variant
	// Peer is another system.
	Peer
)

// Row is one system's figures.
type Row struct {
	Name    string
	About   string
	Role    Role
	Figures Figures
}

// RatioTo is how two figures compare.
type RatioTo struct {
	Name  string
	Value float64
}

// Goal is what the scenario is to reach.
type Goal struct {
	Text string  `json:"goal"`
	Got  float64 `json:"got"`
	Met  bool    `json:"met"`
}

// Result is what a scenario found.
type Result struct {
	ID, Title string
	// Columns are the figures that its table shows.
	Columns []Column
	Rows    []Row
	// RatioTitle heads the column of ratios.
	RatioTitle string
	Ratios     []RatioTo
	Goals      []Goal
	Chart      Chart
}

// AtLeast adds the goal that a figure is at least what is wanted.
func (r *Result) AtLeast(text string, want, got float64) {
	r.Goals = append(r.Goals, Goal{Text: text, Got: got, Met: got >= want})
}

// AtMost adds the goal that a figure is at most what is wanted.
func (r *Result) AtMost(text string, want, got float64) {
	r.Goals = append(r.Goals, Goal{Text: text, Got: got, Met: got <= want})
}

// Ours is the product's main figures, or none.
func (r *Result) Ours() Figures {
	for _, row := range r.Rows {
		if row.Role == Ours {
			return row.Figures
		}
	}
	return Figures{}
}

// Row finds a row's figures by name; it reports false when the system did not run.
func (r *Result) Row(name string) (Figures, bool) {
	for _, row := range r.Rows {
		if row.Name == name && row.Figures.Skipped == "" {
			return row.Figures, true
		}
	}
	return Figures{}, false
}

// CompareRates adds the ratio of the product's messages per second to each peer's.
func (r *Result) CompareRates() {
	ours := r.Ours().MessagesPerSecond
	for _, row := range r.Rows {
		if row.Role == Peer && row.Figures.MessagesPerSecond > 0 {
			r.Ratios = append(r.Ratios, RatioTo{row.Name, Ratio(ours, row.Figures.MessagesPerSecond)})
		}
	}
}

// MarshalJSON implements [json.Marshaler].
func (r *Result) MarshalJSON() ([]byte, error) {
	out := struct {
		Title    string             `json:"title"`
		Ours     Figures            `json:"ours"`
		Variants map[string]Figures `json:"variants,omitempty"`
		Peers    map[string]Figures `json:"peers"`
		Ratios   map[string]float64 `json:"ratios"`
		Goals    []Goal             `json:"goals,omitempty"`
	}{
		Title: r.Title, Ours: r.Ours(), Goals: r.Goals,
		Variants: map[string]Figures{}, Peers: map[string]Figures{}, Ratios: map[string]float64{},
	}
	for _, row := range r.Rows {
		switch row.Role {
		case Variant:
			out.Variants[row.Name] = row.Figures
		case Peer:
			out.Peers[row.Name] = row.Figures
		case Ours:
		}
	}
	for _, ratio := range r.Ratios {
		out.Ratios[ratio.Name] = ratio.Value
	}
	return json.Marshal(out)
}

// ResultsFile is the name of the file that [Write] keeps up to date.
const ResultsFile = "results.json"

// Write puts results into dir beside those of other scenarios that are there from earlier runs.
func Write(dir string, results ...*Result) error {
	all := map[string]json.RawMessage{}
	path := filepath.Join(dir, ResultsFile)
	content, err := os.ReadFile(path)
	if err == nil {
		if err := json.Unmarshal(content, &all); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, result := range results {
		encoded, err := json.Marshal(result)
		if err != nil {
			return err
		}
		all[result.ID] = encoded
	}
	if content, err = json.MarshalIndent(all, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644)
}
