package replay

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/replay"
	"deadletter.dev/deadletter/internal/store"
)

// runSpec is the run that a Replay asks for, but for the names of the physical queues: the hash knows the target by the
// name of its Queue.
func runSpec(object *v1alpha1.Replay) (store.RunSpec, error) {
	limits := &object.Spec.Limits
	spec := store.RunSpec{
		Key:                  store.RunKey{Namespace: object.Namespace, Name: object.Name, RunID: object.EffectiveRunID()},
		Mode:                 store.RunMode(object.EffectiveMode()),
		Filter:               filter(&object.Spec.Selector),
		MaxMessages:          int(limits.EffectiveMaxMessages()),
		MaxReplaysPerMessage: int(limits.EffectiveMaxReplaysPerMessage()),
		MessagesPerSecond:    int(limits.MessagesPerSecond),
		Plan:                 plan(object),
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
	var headers []message.Header
	for _, header := range selector.Headers {
		headers = append(headers, message.Header{Name: header.Name, Value: header.Value})
	}
	return store.DeadLetterFilter{
		Categories:       categories,
		Fingerprints:     selector.Fingerprints,
		ReasonContains:   selector.ErrorContains,
		Headers:          headers,
		ConsumerVersions: selector.ConsumerVersions,
		DiedAfter:        instant(selector.DiedAfter),
		DiedBefore:       instant(selector.DiedBefore),
		IDs:              selector.MessageIDs,
	}
}

// plan is how the run goes about its letters. Defaults are spelled out, so that leaving them out is the same run.
func plan(object *v1alpha1.Replay) store.RunPlan {
	plan := store.RunPlan{Target: object.TargetQueue()}
	if canary := &object.Spec.Canary; canary.Messages > 0 {
		plan.Canary = store.RunCanary{
			Messages:          int(canary.Messages),
			DeadlineSeconds:   int(canary.EffectiveDeadlineSeconds()),
			MaxRedeathPercent: int(canary.EffectiveMaxRedeathPercent()),
		}
	}
	if abort := &object.Spec.AbortWhen; abort.RedeathPercent > 0 {
		plan.Abort = store.RunAbort{
			RedeathPercent: int(abort.RedeathPercent), MinSample: int(abort.EffectiveMinSample()),
		}
	}
	return plan
}

func instant(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
