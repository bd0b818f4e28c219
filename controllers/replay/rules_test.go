package replay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/replay"
	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec  v1alpha1.ReplaySpec
		wrong string
	}{
		"a criterion":        {spec: v1alpha1.ReplaySpec{Selector: v1alpha1.ReplaySelector{MessageIDs: []int64{1}}}},
		"everything":         {spec: v1alpha1.ReplaySpec{Selector: v1alpha1.ReplaySelector{Scope: v1alpha1.ReplayScopeAll}}},
		"nothing":            {wrong: "at least one criterion"},
		"everything and one": {v1alpha1.ReplaySpec{Selector: v1alpha1.ReplaySelector{Scope: v1alpha1.ReplayScopeAll, MessageIDs: []int64{1}}}, "must not have criteria"},
		"NUL":                {v1alpha1.ReplaySpec{Selector: v1alpha1.ReplaySelector{ErrorContains: "a\x00b"}}, "NUL"},
		"after year 1":       {v1alpha1.ReplaySpec{Selector: v1alpha1.ReplaySelector{DiedAfter: &metav1.Time{}}}, "year 1"},
		"before year 1":      {v1alpha1.ReplaySpec{Selector: v1alpha1.ReplaySelector{DiedBefore: &metav1.Time{}}}, "year 1"},
		"a fingerprint":      {spec: selecting(v1alpha1.ReplaySelector{Fingerprints: []string{"e5c1dbab72c2dddc"}})},
		"half a fingerprint": {selecting(v1alpha1.ReplaySelector{Fingerprints: []string{"e5c1dbab72c2dddc", "e5c1"}}), "16"},
		"EXTERNAL":           {spec: selecting(v1alpha1.ReplaySelector{Categories: []string{"EXTERNAL", "tax"}})},
		"external":           {selecting(v1alpha1.ReplaySelector{Categories: []string{"tax", "external"}}), "'EXTERNAL'"},
		"a header":           {spec: selecting(v1alpha1.ReplaySelector{Headers: []v1alpha1.ReplayHeader{{Name: "a", Value: "b"}}})},
		"a version":          {spec: selecting(v1alpha1.ReplaySelector{ConsumerVersions: []string{"v1"}})},
		"itself":             {v1alpha1.ReplaySpec{QueueRef: v1alpha1.QueueReference{Name: "a"}, Target: toQueue("a"), Selector: v1alpha1.ReplaySelector{MessageIDs: []int64{1}}}, "another queue"},
		"another":            {spec: v1alpha1.ReplaySpec{QueueRef: v1alpha1.QueueReference{Name: "a"}, Target: toQueue("b"), Selector: v1alpha1.ReplaySelector{MessageIDs: []int64{1}}}},
		"a target of none":   {v1alpha1.ReplaySpec{Target: toQueue(""), Selector: v1alpha1.ReplaySelector{MessageIDs: []int64{1}}}, "target.queueRef"},
		"a gate of none":     {v1alpha1.ReplaySpec{Gate: v1alpha1.ReplayGate{DeploymentRef: v1alpha1.DeploymentReference{Name: "a"}}, Selector: v1alpha1.ReplaySelector{MessageIDs: []int64{1}}}, "exactly one"},
		"unknown mode":       {v1alpha1.ReplaySpec{Mode: "Dream", Selector: v1alpha1.ReplaySelector{MessageIDs: []int64{1}}}, "`mode`"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := replay.Validate(&v1alpha1.Replay{Spec: test.spec})
			if !strings.Contains(got, test.wrong) || (got == "") != (test.wrong == "") {
				t.Fatalf("got %q", got)
			}
		})
	}
}

func selecting(selector v1alpha1.ReplaySelector) v1alpha1.ReplaySpec {
	return v1alpha1.ReplaySpec{Selector: selector}
}

func TestRunSpecSaysEverything(t *testing.T) {
	t.Parallel()
	after := metav1.NewTime(time.Date(2026, 9, 21, 9, 0, 0, 0, time.UTC))
	before := metav1.NewTime(after.Add(time.Hour))
	got, err := replay.RunSpec(&v1alpha1.Replay{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "fix"},
		Spec: v1alpha1.ReplaySpec{
			RunID: "7", Mode: v1alpha1.ReplayExecute,
			Selector: v1alpha1.ReplaySelector{
				Categories: []string{" EXTERNAL "}, Fingerprints: []string{"ab"}, ErrorContains: "50%",
				Headers:          []v1alpha1.ReplayHeader{{Name: "tenant", Value: "acme"}, {Name: "region", Value: "eu"}},
				ConsumerVersions: []string{"v1"},
				DiedAfter:        &after, DiedBefore: &before, MessageIDs: []int64{4},
			},
			Limits:    v1alpha1.ReplayLimits{MaxMessages: 5, MessagesPerSecond: 6, MaxReplaysPerMessage: 2},
			Canary:    v1alpha1.ReplayCanary{Messages: 8, DeadlineSeconds: 9, MaxRedeathPercent: ptr.To[int32](10)},
			AbortWhen: v1alpha1.ReplayAbort{RedeathPercent: 11, MinSample: 12},
			Target:    toQueue("repair"),
			Gate:      v1alpha1.ReplayGate{DeploymentRef: v1alpha1.DeploymentReference{Name: "worker"}, ImageTag: "v2"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := store.RunSpec{
		Key:  store.RunKey{Namespace: "shop", Name: "fix", RunID: "7"},
		Hash: got.Hash,
		Mode: store.RunExecute,
		Filter: store.DeadLetterFilter{
			Categories: []message.Category{"EXTERNAL"}, Fingerprints: []string{"ab"}, ReasonContains: "50%",
			Headers:          []message.Header{{Name: "tenant", Value: "acme"}, {Name: "region", Value: "eu"}},
			ConsumerVersions: []string{"v1"},
			DiedAfter:        after.Time, DiedBefore: before.Time, IDs: []int64{4},
		},
		MaxMessages: 5, MaxReplaysPerMessage: 2, MessagesPerSecond: 6,
		Plan: store.RunPlan{
			Canary: store.RunCanary{Messages: 8, DeadlineSeconds: 9, MaxRedeathPercent: 10},
			Abort:  store.RunAbort{RedeathPercent: 11, MinSample: 12},
			Target: "repair",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

// A manifest that spells out the defaults asks for the same run as one that leaves them out.
func TestSpelledOutDefaultsAreTheSameRun(t *testing.T) {
	t.Parallel()
	selector := v1alpha1.ReplaySelector{Categories: []string{"EXTERNAL"}}
	short, err := replay.RunSpec(&v1alpha1.Replay{Spec: v1alpha1.ReplaySpec{
		Selector: selector, Canary: v1alpha1.ReplayCanary{Messages: 1}, AbortWhen: v1alpha1.ReplayAbort{RedeathPercent: 5},
	}})
	if err != nil {
		t.Fatal(err)
	}
	selector.Scope = v1alpha1.ReplayScopeMatching
	long, err := replay.RunSpec(&v1alpha1.Replay{Spec: v1alpha1.ReplaySpec{
		RunID: v1alpha1.DefaultRunID, Mode: v1alpha1.ReplayPreview, Selector: selector,
		Limits: v1alpha1.ReplayLimits{
			MaxMessages: v1alpha1.DefaultMaxMessages, MaxReplaysPerMessage: v1alpha1.DefaultMaxReplaysPerMessage,
		},
		Canary: v1alpha1.ReplayCanary{
			Messages: 1, DeadlineSeconds: v1alpha1.DefaultCanaryDeadlineSeconds, MaxRedeathPercent: ptr.To[int32](0),
		},
		AbortWhen: v1alpha1.ReplayAbort{RedeathPercent: 5, MinSample: v1alpha1.DefaultAbortMinSample},
		Target:    v1alpha1.ReplayTarget{Type: v1alpha1.ReplayTargetOriginal},
		Gate:      v1alpha1.ReplayGate{DeploymentRef: v1alpha1.DeploymentReference{Name: "worker"}, ImageTag: "v2"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(short, long); diff != "" {
		t.Fatal(diff)
	}
}

func TestCategoriesFitIntoStatus(t *testing.T) {
	t.Parallel()
	var counts []store.CategoryCount
	for i := range 40 {
		counts = append(counts, store.CategoryCount{Category: message.Category(fmt.Sprintf("C%02d", i)), Count: 10})
	}
	counts[3].Category = message.Category(v1alpha1.CategoryOther)
	got := replay.Categories(counts)
	if len(got) != v1alpha1.MaxReplayCategories {
		t.Fatalf("%d categories", len(got))
	}
	var total int64
	seen := map[string]bool{}
	for _, each := range got {
		total += *each.Count
		if seen[each.Category] {
			t.Errorf("%s is there twice", each.Category)
		}
		seen[each.Category] = true
	}
	if last := got[len(got)-1]; total != 400 || last.Category != v1alpha1.CategoryOther || *last.Count != 90 {
		t.Errorf("total %d, last %s with %d", total, last.Category, *last.Count)
	}
	few := replay.Categories(counts[:2])
	if len(few) != 2 || few[0].Category != "C00" {
		t.Errorf("few categories became %+v", few)
	}
}

func TestGroupsFitIntoStatus(t *testing.T) {
	t.Parallel()
	run := store.Run{Versions: []store.ValueCount{{Value: "", Count: 50}}}
	for i := range 30 {
		each := store.ValueCount{Value: fmt.Sprintf("%02d", i), Count: int64(40 - i)}
		run.Versions, run.Fingerprints = append(run.Versions, each), append(run.Fingerprints, each)
	}
	object := &v1alpha1.Replay{}
	replay.Mirror(object, run)
	prints, versions := object.Status.Fingerprints, object.Status.ConsumerVersions
	if len(prints) != v1alpha1.MaxReplayGroups || prints[0].Fingerprint != "00" || *prints[9].Count != 31 {
		t.Errorf("fingerprints are %+v", prints)
	}
	if len(versions) != v1alpha1.MaxReplayGroups || versions[0].Version != "00" || *versions[9].Count != 31 {
		t.Errorf("versions are %+v", versions)
	}
}

func TestProgressIsWrittenNowAndThen(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		done    int64
		elapsed time.Duration
		want    bool
	}{
		"nothing new":               {done: 100, elapsed: time.Hour},
		"a little, soon":            {done: 101, elapsed: 4 * time.Second},
		"a little, after a while":   {done: 101, elapsed: 5 * time.Second, want: true},
		"a twentieth, at once":      {done: 150, elapsed: 900 * time.Millisecond},
		"a twentieth, a second on":  {done: 150, elapsed: time.Second, want: true},
		"less than that, no longer": {done: 149, elapsed: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &handClock{now: time.Unix(1000, 0)}
			progress := replay.NewProgress(clock.Now)
			object := &v1alpha1.Replay{}
			object.UID = "u"
			if !replay.IsDue(progress, object, store.Run{Matched: 1000}) {
				t.Fatal("the first counts are not shown")
			}
			object.Status.Run.StartTime = new(metav1.NewTime(clock.now))
			object.Status.Counts = v1alpha1.ReplayCounts{Replayed: ptr.To[int64](90), Skipped: ptr.To[int64](10)}
			clock.now = clock.now.Add(test.elapsed)
			// It makes no difference whether letters went back to work, or what became of them is known.
			run := store.Run{Matched: 1000, Replayed: test.done - 10, Skipped: 10}
			if test.done > 100 {
				run.Replayed, run.Succeeded = 90, test.done-100
			}
			if got := replay.IsDue(progress, object, run); got != test.want {
				t.Fatalf("got %v", got)
			}
		})
	}
}
