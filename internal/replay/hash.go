package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"deadletter.dev/deadletter/internal/store"
)

// decisive is what decides which letters a run moves, in a form that is the same for the same meaning. Its JSON is what
// recorded hashes were made of: fields may be added, with omitempty, and never renamed or reordered.
type decisive struct {
	Mode                 store.RunMode  `json:"mode"`
	Categories           []string       `json:"categories,omitempty"`
	Fingerprints         []string       `json:"fingerprints,omitempty"`
	ErrorClass           string         `json:"errorClass,omitempty"`
	ReasonContains       string         `json:"reasonContains,omitempty"`
	ConsumerVersions     []string       `json:"consumerVersions,omitempty"`
	DiedAfter            string         `json:"diedAfter,omitempty"`
	DiedBefore           string         `json:"diedBefore,omitempty"`
	ReplayCount          *int           `json:"replayCount,omitempty"`
	Headers              []string       `json:"headers,omitempty"`
	IDs                  []int64        `json:"ids,omitempty"`
	MaxMessages          int            `json:"maxMessages"`
	MaxReplaysPerMessage int            `json:"maxReplaysPerMessage"`
	Plan                 *store.RunPlan `json:"plan,omitempty"`
}

// Hash identifies what a run does: its mode, filter, limits and plan, but neither its key nor its rate, which may
// change while it is under way. The order of a list, a repeated entry and the zone of a time make no difference.
func Hash(spec store.RunSpec) (string, error) {
	filter := spec.Filter
	categories := make([]string, len(filter.Categories))
	for i, category := range filter.Categories {
		categories[i] = string(category)
	}
	headers := make([]string, len(filter.Headers))
	for i, header := range filter.Headers {
		headers[i] = strconv.Quote(header.Name) + ":" + strconv.Quote(header.Value)
	}
	text, err := json.Marshal(decisive{
		Mode:                 spec.Mode,
		Categories:           set(categories),
		Fingerprints:         set(filter.Fingerprints),
		ErrorClass:           filter.ErrorClass,
		ReasonContains:       filter.ReasonContains,
		ConsumerVersions:     set(filter.ConsumerVersions),
		DiedAfter:            instant(filter.DiedAfter),
		DiedBefore:           instant(filter.DiedBefore),
		ReplayCount:          filter.ReplayCount,
		Headers:              set(headers),
		IDs:                  set(filter.IDs),
		MaxMessages:          spec.MaxMessages,
		MaxReplaysPerMessage: spec.MaxReplaysPerMessage,
		Plan:                 planned(spec.Plan),
	})
	if err != nil {
		return "", fmt.Errorf("hash replay run: %w", err)
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// planned is nil for a run without a plan, as runs were before there were plans.
func planned(plan store.RunPlan) *store.RunPlan {
	if plan == (store.RunPlan{}) {
		return nil
	}
	return &plan
}

// set sorts a copy and drops repeated entries.
func set[T int64 | string](list []T) []T {
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
