package replay

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/message"
)

// validate returns what is wrong with the spec, or nothing. The API server holds specs to these rules too; a run must
// not start on an object that was stored under older ones.
func validate(object *v1alpha1.Replay) string {
	selector := &object.Spec.Selector
	switch all := selector.EffectiveScope() == v1alpha1.ReplayScopeAll; {
	case all && hasCriteria(selector):
		return "`selector` must not have criteria when `scope` is 'All'."
	case !all && !hasCriteria(selector):
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
	case object.TargetQueue() == object.Spec.QueueRef.Name && object.TargetQueue() != "":
		return "`target` must be another queue than `queueRef`."
	case object.Spec.Target.Type == v1alpha1.ReplayTargetQueue && object.TargetQueue() == "":
		return "`target.queueRef` must be set when `target.type` is 'Queue'."
	case object.Spec.Gate.DeploymentRef.Name != "" &&
		(object.Spec.Gate.ImageTag == "") == (object.Spec.Gate.ImageDigest == ""):
		return "`gate` must have exactly one of `imageTag` and `imageDigest`."
	default:
		return ""
	}
}

func hasCriteria(s *v1alpha1.ReplaySelector) bool {
	return len(s.Categories)+len(s.Fingerprints)+len(s.ErrorContains)+len(s.Headers)+len(s.ConsumerVersions)+
		len(s.MessageIDs) > 0 || s.DiedAfter != nil || s.DiedBefore != nil
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
