package replay

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/replay"
	"deadletter.dev/deadletter/internal/store"
)

// runSpec is the run that a Replay asks for, but for the name of the physical queue.
func runSpec(object *v1alpha1.Replay) (store.RunSpec, error) {
	limits := &object.Spec.Limits
	spec := store.RunSpec{
		Key:                  store.RunKey{Namespace: object.Namespace, Name: object.Name, RunID: object.EffectiveRunID()},
		Mode:                 store.RunMode(object.EffectiveMode()),
		Filter:               filter(&object.Spec.Selector),
		MaxMessages:          int(limits.EffectiveMaxMessages()),
		MaxReplaysPerMessage: int(limits.EffectiveMaxReplaysPerMessage()),
		MessagesPerSecond:    int(limits.MessagesPerSecond),
	}
	var err error
	spec.Hash, err = replay.Hash(spec)
	return spec, err
}

func filter(selector *v1alpha1.ReplaySelector) store.DeadLetterFilter {
	categories := make([]message.Category, 0, len(selector.Categories))
	for _, name := range selector.Categories {
		// In the form in which reported categories are stored.
		categories = append(categories, message.NewCategory(name))
	}
	return store.DeadLetterFilter{
		Categories:     categories,
		Fingerprints:   selector.Fingerprints,
		ReasonContains: selector.ErrorContains,
		DiedAfter:      instant(selector.DiedAfter),
		DiedBefore:     instant(selector.DiedBefore),
		IDs:            selector.MessageIDs,
	}
}

func instant(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// validate returns what is wrong with the spec, or nothing. The API server holds specs to these rules too; a run must
// not start on an object that was stored under older ones.
func validate(object *v1alpha1.Replay) string {
	selector := &object.Spec.Selector
	criteria := len(selector.Categories) + len(selector.Fingerprints) + len(selector.ErrorContains) +
		len(selector.MessageIDs)
	if selector.DiedAfter != nil || selector.DiedBefore != nil {
		criteria++
	}
	switch all := selector.EffectiveScope() == v1alpha1.ReplayScopeAll; {
	case all && criteria > 0:
		return "`selector` must not have criteria when `scope` is 'All'."
	case !all && criteria == 0:
		return "`selector` must have at least one criterion, or `scope` 'All' to select every dead letter of the queue."
	case slices.ContainsFunc(selector.Fingerprints, isNoFingerprint):
		return "`selector.fingerprints` must be 16 lower-case hexadecimal digits each."
	case misspelt(selector.Categories) != "":
		return fmt.Sprintf("`selector.categories` tells upper from lower case: write '%s'.", misspelt(selector.Categories))
	case isYearOne(selector.DiedAfter) || isYearOne(selector.DiedBefore):
		return "`selector.diedAfter` and `selector.diedBefore` must be later than the first moment of the year 1."
	case strings.ContainsRune(selector.ErrorContains, 0):
		return "`selector.errorContains` must not contain the character NUL: no stored error does."
	case object.EffectiveMode() != v1alpha1.ReplayPreview && object.EffectiveMode() != v1alpha1.ReplayExecute:
		return "`mode` must be 'Preview' or 'Execute'."
	default:
		return ""
	}
}

// fingerprint is what [message.Fingerprint] makes.
var fingerprint = regexp.MustCompile(`^[0-9a-f]{16}$`)

func isNoFingerprint(text string) bool { return !fingerprint.MatchString(text) }

var builtIn = []message.Category{
	message.Validation, message.Timeout, message.Auth, message.External, message.Poison, message.Expired, message.Unknown,
}

// misspelt returns the built-in category that one of the names would be but for its case, or nothing. Such a name
// selects nothing, and looks as if there were nothing to select.
func misspelt(names []string) message.Category {
	for _, raw := range names {
		name := message.NewCategory(raw)
		for _, known := range builtIn {
			if name != known && strings.EqualFold(string(name), string(known)) {
				return known
			}
		}
	}
	return ""
}

// isYearOne tells a time that was set to the zero time, which a filter takes for none: it would select everything.
func isYearOne(t *metav1.Time) bool { return t != nil && t.IsZero() }
