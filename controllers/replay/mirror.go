package replay

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/store"
)

// isAbout tells whether status is about the run of spec: this object has asked for it, even if it had to leave the rest
// to a later process.
func isAbout(object *v1alpha1.Replay, spec store.RunSpec) bool {
	shown := object.Status.Run
	return shown.ID == spec.Key.RunID && shown.Mode == v1alpha1.ReplayMode(spec.Mode) && shown.Hash == spec.Hash
}

// announce makes status about a run that is going to be asked for.
func announce(object *v1alpha1.Replay, spec store.RunSpec) {
	object.Status.Run = v1alpha1.ReplayRun{
		ID: spec.Key.RunID, Mode: v1alpha1.ReplayMode(spec.Mode), Hash: spec.Hash,
	}
	object.Status.Counts = v1alpha1.ReplayCounts{}
	object.Status.Categories, object.Status.Fingerprints, object.Status.ConsumerVersions = nil, nil, nil
	object.Status.OldestDeathTime, object.Status.NewestDeathTime = nil, nil
}

// mirror shows a run in status.
func mirror(object *v1alpha1.Replay, run store.Run) {
	object.Status.Run = v1alpha1.ReplayRun{
		ID:             run.Key.RunID,
		Mode:           v1alpha1.ReplayMode(run.Mode),
		Hash:           run.Hash,
		SelectedBefore: at(&run.StartedAt),
		StartTime:      at(&run.StartedAt),
		CompletionTime: at(run.CompletedAt),
	}
	mirrorCounts(object, run)
	object.Status.Categories = categories(run.Categories)
	object.Status.Fingerprints = top(run.Fingerprints, func(each store.ValueCount) v1alpha1.ReplayFingerprint {
		return v1alpha1.ReplayFingerprint{Fingerprint: each.Value, Count: &each.Count}
	})
	object.Status.ConsumerVersions = top(run.Versions, func(each store.ValueCount) v1alpha1.ReplayConsumerVersion {
		return v1alpha1.ReplayConsumerVersion{Version: each.Value, Count: &each.Count}
	})
	object.Status.OldestDeathTime, object.Status.NewestDeathTime = at(run.OldestDiedAt), at(run.NewestDiedAt)
}

// mirrorCounts shows what became of the letters of a run.
func mirrorCounts(object *v1alpha1.Replay, run store.Run) {
	pending := run.Pending()
	object.Status.Counts = v1alpha1.ReplayCounts{
		Matched: &run.Matched, Replayed: &run.Replayed, Skipped: &run.Skipped, BeyondLimit: &run.BeyondLimit,
		Succeeded: &run.Succeeded, Redied: &run.Redied, Pending: &pending, Failed: &run.Failed, Removed: &run.Removed,
	}
}

// at rounds a time down to the second, which is all that the API server keeps: anything more would differ for ever.
func at(t *time.Time) *metav1.Time {
	if t == nil {
		return nil
	}
	return &metav1.Time{Time: t.Truncate(time.Second)}
}

// categories sums up what does not fit into status.
func categories(counts []store.CategoryCount) []v1alpha1.ReplayCategory {
	shown := make([]v1alpha1.ReplayCategory, 0, min(len(counts), v1alpha1.MaxReplayCategories))
	var rest int64
	for _, each := range counts {
		// Room is kept for the rest. A category of that very name goes with it.
		name := string(each.Category)
		if name == v1alpha1.CategoryOther || len(shown) == v1alpha1.MaxReplayCategories-1 {
			rest += each.Count
			continue
		}
		shown = append(shown, v1alpha1.ReplayCategory{Category: name, Count: &each.Count})
	}
	if rest > 0 {
		shown = append(shown, v1alpha1.ReplayCategory{Category: v1alpha1.CategoryOther, Count: &rest})
	}
	if len(shown) == 0 {
		return nil
	}
	return shown
}

// top are the first values that have a name, as many as fit into status.
func top[T any](counts []store.ValueCount, show func(store.ValueCount) T) []T {
	var shown []T
	for _, each := range counts {
		if each.Value != "" && len(shown) < v1alpha1.MaxReplayGroups {
			shown = append(shown, show(each))
		}
	}
	return shown
}
