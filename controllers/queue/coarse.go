package queue

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/store"
)

// Depth in status is coarse, because every write goes to etcd and to every watcher of Queues. What a person would act
// on, a number that becomes or stops being zero or that changes by a tenth, is written when it is seen, and anything
// less as far as a budget shared by all Queues goes, so that a small cluster sees exact numbers, and after exactWithin
// at the latest. No Queue is written more often than every writeInterval, which with readInterval keeps within the 10
// seconds that kubectl's columns promise.
const (
	readInterval  = 2 * time.Second
	writeInterval = 8 * time.Second
	exactWithin   = time.Minute

	// smallPerSecond and smallBurst are the budget for small changes.
	smallPerSecond = 10
	smallBurst     = 100

	// significantPercent is the change of a number that is never small; of an age it is the change in the age.
	significantPercent = 10
)

// change is how much a reading differs from what status shows.
type change int

const (
	none change = iota
	small
	large
)

// compare tells how much the depth differs from what a Queue's status shows.
func compare(shown *v1alpha1.QueueStatus, depth store.Depth) change {
	return max(
		compareCount(shown.Messages.Pending, depth.Pending),
		compareCount(shown.Messages.Processing, depth.Processing),
		compareCount(shown.DeadLetters.Count, depth.Dead),
		compareAge(shown.DeadLetters.OldestTime, depth.OldestDeadAt, depth.ObservedAt),
	)
}

func compareCount(shown *int64, actual int64) change {
	switch {
	case shown == nil || (*shown == 0) != (actual == 0):
		return large
	case *shown == actual:
		return none
	case isTenth(*shown, actual):
		return large
	default:
		return small
	}
}

// compareAge compares times to the second, which is all that status can hold.
func compareAge(shown *metav1.Time, actual *time.Time, now time.Time) change {
	switch {
	case (shown == nil) != (actual == nil):
		return large
	case shown == nil || shown.Unix() == actual.Unix():
		return none
	case isTenth(int64(now.Sub(shown.Time)), int64(now.Sub(*actual))):
		return large
	default:
		return small
	}
}

// isTenth tells whether b is at least a tenth more or less than a.
func isTenth(a, b int64) bool {
	difference := a - b
	if difference < 0 {
		difference = -difference
	}
	return float64(difference)*100 >= float64(a)*significantPercent
}
