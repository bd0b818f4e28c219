package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/queue"
	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// The defaults of undeclared queues and of Queues that say nothing are written down twice.
func TestQueueThatSaysNothingHasTheDefaultSettings(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(message.DefaultSettings(), queue.Settings(&v1alpha1.Queue{})); diff != "" {
		t.Fatal(diff)
	}
}

func TestSettingsTellTheDatabaseEverything(t *testing.T) {
	t.Parallel()
	got := queue.Settings(&v1alpha1.Queue{Spec: v1alpha1.QueueSpec{
		MaxRetries: 7,
		Backoff: v1alpha1.QueueBackoff{
			InitialSeconds: 3, FactorPercent: 150, MaxSeconds: 90, JitterPercent: ptr.To[int32](25),
		},
		VisibilityTimeoutSeconds: 45,
		MaxDeliveries:            12,
		MessageTTLSeconds:        900,
		MaxLength:                5000,
		Overflow:                 v1alpha1.QueueOverflowDeadLetter,
		CircuitBreaker: v1alpha1.QueueCircuitBreaker{
			FailurePercent: 40, MinSample: 30, WindowSeconds: 20, OpenSeconds: 10, HalfOpenMessages: 9,
		},
		State: v1alpha1.QueuePaused,
		Retention: v1alpha1.QueueRetention{
			SucceededSeconds: 60, DeadSeconds: 120, OnDeadExpiry: v1alpha1.DeadExpiryKeep,
		},
	}})
	want := message.Settings{
		MaxRetries: 7,
		Backoff: message.Backoff{
			Initial: 3 * time.Second, FactorPercent: 150, Max: 90 * time.Second, JitterPercent: 25,
		},
		VisibilityTimeout: 45 * time.Second,
		MaxDeliveries:     12,
		MessageTTL:        15 * time.Minute,
		MaxLength:         5000,
		Overflow:          message.OverflowDeadLetter,
		Breaker: message.Breaker{
			Window: 20 * time.Second, FailurePercent: 40, MinSample: 30, OpenFor: 10 * time.Second, Probes: 9,
		},
		State:     message.Paused,
		Retention: message.Retention{Succeeded: time.Minute, Dead: 2 * time.Minute, OnDeadExpiry: message.ExpiryKeep},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec        v1alpha1.QueueSpec
		name, wrong string
	}{
		"name of the object":     {name: "orders"},
		"name of its own":        {spec: v1alpha1.QueueSpec{QueueName: "eu/orders v2"}, name: "eu/orders v2"},
		"decomposed name":        {spec: v1alpha1.QueueSpec{QueueName: "u\u0308ber"}, name: "über"},
		"control character":      {spec: v1alpha1.QueueSpec{QueueName: "a\x07"}, wrong: "`queueName`"},
		"dots":                   {spec: v1alpha1.QueueSpec{QueueName: ".."}, wrong: "`queueName`"},
		"too long":               {spec: v1alpha1.QueueSpec{QueueName: strings.Repeat("ü", 128)}, wrong: "`queueName`"},
		"too many retries":       {spec: v1alpha1.QueueSpec{MaxRetries: 11}, wrong: "`maxRetries` is 11"},
		"backoff above its end":  {spec: v1alpha1.QueueSpec{Backoff: v1alpha1.QueueBackoff{MaxSeconds: 1}}, wrong: "`backoff.initialSeconds` is 2"},
		"shrinking backoff":      {spec: v1alpha1.QueueSpec{Backoff: v1alpha1.QueueBackoff{FactorPercent: 99}}, wrong: "`backoff.factorPercent`"},
		"endless visibility":     {spec: v1alpha1.QueueSpec{VisibilityTimeoutSeconds: 43201}, wrong: "`visibilityTimeoutSeconds`"},
		"negative retention":     {spec: v1alpha1.QueueSpec{Retention: v1alpha1.QueueRetention{DeadSeconds: -1}}, wrong: "`retention.deadSeconds`"},
		"endless time to live":   {spec: v1alpha1.QueueSpec{MessageTTLSeconds: 31536001}, wrong: "`messageTTLSeconds` is 31536001"},
		"negative time to live":  {spec: v1alpha1.QueueSpec{MessageTTLSeconds: -1}, wrong: "`messageTTLSeconds`"},
		"negative length":        {spec: v1alpha1.QueueSpec{MaxLength: -1}, wrong: "`maxLength`"},
		"boundless length":       {spec: v1alpha1.QueueSpec{MaxLength: 1000000001}, wrong: "`maxLength`"},
		"negative number of any": {spec: v1alpha1.QueueSpec{MaxDeliveries: -1}, wrong: "`maxDeliveries`"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, wrong := queue.Validate(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "orders"}, Spec: test.spec})
			if got != test.name || !strings.Contains(wrong, test.wrong) || (test.wrong == "") != (wrong == "") {
				t.Fatalf("got name %q, wrong %q", got, wrong)
			}
		})
	}
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	operators := types.NamespacedName{Namespace: "deadletter-system", Name: "default"}
	own := types.NamespacedName{Namespace: "shop", Name: "default"}
	for name, test := range map[string]struct {
		ref   v1alpha1.BrokerReference
		bound v1alpha1.QueueBrokerStatus
		or    types.NamespacedName
		want  []types.NamespacedName
	}{
		"its namespace's, else the operator's": {or: operators, want: []types.NamespacedName{own, operators}},
		"in the operator's own namespace":      {or: own, want: []types.NamespacedName{own}},
		"operator without a default":           {want: []types.NamespacedName{own}},
		"reference here": {
			ref: v1alpha1.BrokerReference{Name: "fast"}, or: operators,
			want: []types.NamespacedName{{Namespace: "shop", Name: "fast"}},
		},
		"reference elsewhere": {
			ref: v1alpha1.BrokerReference{Name: "fast", Namespace: "platform"}, or: operators,
			want: []types.NamespacedName{{Namespace: "platform", Name: "fast"}},
		},
		"stays where its messages are": {
			bound: v1alpha1.QueueBrokerStatus{Namespace: operators.Namespace, Name: operators.Name}, or: operators,
			want: []types.NamespacedName{operators},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &v1alpha1.Queue{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"},
				Spec:       v1alpha1.QueueSpec{BrokerRef: test.ref},
				Status:     v1alpha1.QueueStatus{Broker: test.bound},
			}
			if diff := cmp.Diff(test.want, queue.Candidates(object, test.or)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 21, 10, 0, 0, 0, time.UTC)
	hourAgo := now.Add(-time.Hour)
	shown := func(pending, dead int64, oldest *time.Time) *v1alpha1.QueueStatus {
		s := &v1alpha1.QueueStatus{}
		s.Messages.Pending, s.Messages.Processing = &pending, ptr.To[int64](0)
		s.DeadLetters.Count = &dead
		if oldest != nil {
			s.DeadLetters.OldestTime = new(metav1.NewTime(oldest.Truncate(time.Second)))
		}
		return s
	}
	for name, test := range map[string]struct {
		shown *v1alpha1.QueueStatus
		depth store.Depth
		want  any
	}{
		"nothing shown yet":     {&v1alpha1.QueueStatus{}, store.Depth{}, queue.Large},
		"same":                  {shown(5, 0, nil), store.Depth{Pending: 5}, queue.None},
		"from zero":             {shown(0, 0, nil), store.Depth{Pending: 1}, queue.Large},
		"to zero":               {shown(1000, 0, nil), store.Depth{}, queue.Large},
		"a tenth more":          {shown(1000, 0, nil), store.Depth{Pending: 1100}, queue.Large},
		"a tenth less":          {shown(1000, 0, nil), store.Depth{Pending: 900}, queue.Large},
		"less than a tenth":     {shown(1000, 0, nil), store.Depth{Pending: 1099}, queue.Small},
		"claimed":               {shown(1000, 0, nil), store.Depth{Pending: 1000, Processing: 1}, queue.Large},
		"first death":           {shown(1000, 0, nil), store.Depth{Pending: 1000, Dead: 1, OldestDeadAt: &now}, queue.Large},
		"same second":           {shown(0, 5, &hourAgo), store.Depth{Dead: 5, OldestDeadAt: new(hourAgo.Add(time.Millisecond))}, queue.None},
		"a little younger":      {shown(0, 5, &hourAgo), store.Depth{Dead: 5, OldestDeadAt: new(hourAgo.Add(time.Minute))}, queue.Small},
		"a tenth younger":       {shown(0, 5, &hourAgo), store.Depth{Dead: 5, OldestDeadAt: new(hourAgo.Add(6 * time.Minute))}, queue.Large},
		"succeeded only":        {shown(1, 0, nil), store.Depth{Pending: 1, Succeeded: 500}, queue.None},
		"one of a hundred less": {shown(0, 100, &hourAgo), store.Depth{Dead: 99, OldestDeadAt: &hourAgo}, queue.Small},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.depth.ObservedAt = now
			if got := queue.Compare(test.shown, test.depth); got != test.want {
				t.Fatalf("got %v, want %v", got, test.want)
			}
		})
	}
}
