package replay

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/store"
)

// Progress is written now and then: when a twentieth of the run was done, though not more often than every second, and
// otherwise every few seconds.
const (
	progressInterval = 5 * time.Second
	progressFloor    = time.Second
	progressSteps    = 20
)

// progress remembers when each Replay's counts were last written.
type progress struct {
	now func() time.Time

	mu      sync.Mutex
	written map[types.UID]time.Time
}

func newProgress(now func() time.Time) *progress {
	return &progress{now: now, written: map[types.UID]time.Time{}}
}

// isDue decides whether the counts of a run are worth a write, and counts on its being done then.
func (p *progress) isDue(object *v1alpha1.Replay, run store.Run) bool {
	counts := object.Status.Counts
	if counts.Replayed == nil || counts.Skipped == nil || object.Status.Run.StartTime == nil {
		return p.mark(object.UID)
	}
	done := run.Replayed + run.Skipped + run.Failed + run.Succeeded + run.Redied + run.Removed
	for _, shown := range []*int64{
		counts.Replayed, counts.Skipped, counts.Failed, counts.Succeeded, counts.Redied, counts.Removed,
	} {
		done -= ptr.Deref(shown, 0)
	}
	if done == 0 {
		return false
	}
	p.mu.Lock()
	elapsed := p.now().Sub(p.written[object.UID])
	p.mu.Unlock()
	if elapsed >= progressInterval || elapsed >= progressFloor && done*progressSteps >= run.Matched-run.BeyondLimit {
		return p.mark(object.UID)
	}
	return false
}

func (p *progress) mark(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written[uid] = p.now()
	return true
}

func (p *progress) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.written, uid)
}
