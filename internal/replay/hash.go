package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// decisive is what decides which letters a run moves, in a form that is the same for the same meaning. Its JSON is what
// recorded hashes were made of: fields may be added, with omitempty, and never renamed or reordered.
type decisive struct {
	Mode                 store.RunMode   `json:"mode"`
	Categories           []string        `json:"categories,omitempty"`
	Fingerprints         []string        `json:"fingerprints,omitempty"`
	ErrorClass           string          `json:"errorClass,omitempty"`
	ReasonContains       string          `json:"reasonContains,omitempty"`
	ConsumerVersion      string          `json:"consumerVersion,omitempty"`
	DiedAfter            string          `json:"diedAfter,omitempty"`
	DiedBefore           string          `json:"diedBefore,omitempty"`
	ReplayCount          *int            `json:"replayCount,omitempty"`
	Header               *message.Header `json:"header,omitempty"`
	IDs                  []int64         `json:"ids,omitempty"`
	MaxMessages          int             `json:"maxMessages"`
	MaxReplaysPerMessage int             `json:"maxReplaysPerMessage"`
}

// Hash identifies what a run does: its mode, filter and limits, but neither its key nor its rate, which may change
// while it is under way. The order of a list, a repeated entry and the zone of a time make no difference.
func Hash(spec store.RunSpec) (string, error) {
	filter := spec.Filter
	categories := make([]string, len(filter.Categories))
	for i, category := range filter.Categories {
		categories[i] = string(category)
	}
	text, err := json.Marshal(decisive{ //nolint:musttag // message.Header goes by its Go names, as recorded hashes do
		Mode:                 spec.Mode,
		Categories:           set(categories),
		Fingerprints:         set(filter.Fingerprints),
		ErrorClass:           filter.ErrorClass,
		ReasonContains:       filter.ReasonContains,
		ConsumerVersion:      filter.ConsumerVersion,
		DiedAfter:            instant(filter.DiedAfter),
		DiedBefore:           instant(filter.DiedBefore),
		ReplayCount:          filter.ReplayCount,
		Header:               filter.Header,
		IDs:                  set(filter.IDs),
		MaxMessages:          spec.MaxMessages,
		MaxReplaysPerMessage: spec.MaxReplaysPerMessage,
	})
	if err != nil {
		return "", fmt.Errorf("hash replay run: %w", err)
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
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
