package status_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()

	boom := errors.New("dial tcp 10.0.0.1:5432: user=app password=hunter2")

	for name, test := range map[string]struct {
		outcome status.Outcome
		failure error
		state   kstatus.Status
		ready   metav1.Condition
		result  ctrl.Result
	}{
		"done": {
			state: kstatus.CurrentStatus,
			ready: metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady},
		},
		"done, to be looked at again": {
			outcome: status.Done(v1alpha1.ReasonPaused, "Nothing can be claimed.").Again(time.Minute),
			state:   kstatus.CurrentStatus,
			ready: metav1.Condition{
				Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPaused, Message: "Nothing can be claimed.",
			},
			result: ctrl.Result{RequeueAfter: time.Minute},
		},
		"waiting": {
			outcome: status.Wait(time.Second, v1alpha1.ReasonProvisioning, "It starts."),
			state:   kstatus.InProgressStatus,
			ready: metav1.Condition{
				Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProvisioning, Message: "It starts.",
			},
			result: ctrl.Result{RequeueAfter: time.Second},
		},
		"stalled": {
			outcome: status.Stall(v1alpha1.ReasonConflict, "Another was first."),
			state:   kstatus.FailedStatus,
			ready: metav1.Condition{
				Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonConflict, Message: "Another was first.",
			},
		},
		"failed, with words for status": {
			failure: status.Retry(v1alpha1.ReasonDatabaseUnreachable, "No answer.", boom),
			state:   kstatus.InProgressStatus,
			ready: metav1.Condition{
				Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDatabaseUnreachable, Message: "No answer.",
			},
		},
		"failed, with nothing that status may say": {
			failure: boom,
			state:   kstatus.InProgressStatus,
			ready: metav1.Condition{
				Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRetrying,
				Message: "A step failed and is tried again; the operator's log has the cause.",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			f := newFixture(t)

			result, err := f.pass(t, test.outcome, test.failure)
			if !errors.Is(err, test.failure) || (err == nil) != (test.failure == nil) {
				t.Errorf("error %v, want %v", err, test.failure)
			}

			f.check(t, test.state)

			got := *f.condition(v1alpha1.ConditionReady)
			test.ready.Type = v1alpha1.ConditionReady
			test.ready.ObservedGeneration = 1
			test.ready.LastTransitionTime = got.LastTransitionTime

			if diff := cmp.Diff(test.ready, got); diff != "" {
				t.Error(diff)
			}

			if diff := cmp.Diff(test.result, result); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEveryTurnKeepsTheRules(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	wait := status.Wait(0, v1alpha1.ReasonProvisioning, "It starts.")
	stall := status.Stall(v1alpha1.ReasonConflict, "Another was first.")

	for i, step := range []struct {
		outcome status.Outcome
		state   kstatus.Status
	}{
		{wait, kstatus.InProgressStatus},
		{stall, kstatus.FailedStatus},
		{wait, kstatus.InProgressStatus},
		{status.Outcome{}, kstatus.CurrentStatus},
		{stall, kstatus.FailedStatus},
		{status.Outcome{}, kstatus.CurrentStatus},
		{wait, kstatus.InProgressStatus},
	} {
		if _, err := f.pass(t, step.outcome, nil); err != nil {
			t.Fatal(err)
		}

		t.Log("turn", i)
		f.check(t, step.state)
	}
}

func TestSameFindingsWriteNothing(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	found := func(pass *status.Pass) {
		pass.Introduce(v1alpha1.ConditionSchemaReady, v1alpha1.ConditionAvailable)
		pass.True(v1alpha1.ConditionSchemaReady, v1alpha1.ReasonMigrated, "Version 2.")
		f.broker.Status.Endpoint = "http://orders-api.shop.svc"
	}

	if _, err := f.pass(t, status.Outcome{}, nil, found); err != nil {
		t.Fatal(err)
	}

	version := f.broker.ResourceVersion
	f.events()

	if _, err := f.pass(t, status.Outcome{}, nil, found); err != nil {
		t.Fatal(err)
	}

	if f.broker.ResourceVersion != version {
		t.Error("the same findings were written again")
	}

	if got := f.events(); got != nil {
		t.Errorf("the same findings were reported again: %q", got)
	}
}

func TestEventsTellOfTurns(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	connected := func(pass *status.Pass) {
		pass.True(v1alpha1.ConditionDatabaseReady, v1alpha1.ReasonConnected, "It answers.")
	}
	lost := func(pass *status.Pass) {
		pass.False(v1alpha1.ConditionDatabaseReady, v1alpha1.ReasonDatabaseUnreachable, "No answer.")
	}
	introduced := func(pass *status.Pass) { pass.Introduce(v1alpha1.ConditionDatabaseReady) }
	gone := status.Retry(v1alpha1.ReasonDatabaseUnreachable, "No answer.", errors.New("refused"))

	for _, step := range []struct {
		outcome status.Outcome
		failure error
		found   func(*status.Pass)
		want    []string
	}{
		{status.Wait(0, v1alpha1.ReasonProvisioning, "It starts."), nil, introduced, nil},
		{status.Outcome{}, nil, connected, []string{"Normal Connected It answers.", "Normal Ready Ready is True."}},
		{status.Outcome{}, gone, lost, []string{"Warning DatabaseUnreachable No answer."}},
		{status.Outcome{}, gone, lost, nil},
		{status.Outcome{}, nil, connected, []string{"Normal Connected It answers.", "Normal Ready Ready is True."}},
		{
			status.Stall(v1alpha1.ReasonConflict, "Another was first."), nil, connected,
			[]string{"Warning Conflict Another was first."},
		},
		{
			status.Outcome{},
			nil,
			func(pass *status.Pass) {
				pass.Normal(v1alpha1.ReasonMigrated, "From 1 to 2.")
				pass.True(v1alpha1.ConditionSchemaReady, v1alpha1.ReasonMigrated, "Version 2.")
			},
			[]string{"Normal Migrated From 1 to 2.", "Normal Ready Ready is True."},
		},
	} {
		if _, err := f.pass(t, step.outcome, step.failure, step.found); !errors.Is(err, step.failure) {
			t.Fatal(err)
		}

		if diff := cmp.Diff(step.want, f.events()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestFlushShowsALongStepAtOnce(t *testing.T) {
	t.Parallel()

	f := newFixture(t)

	_, err := f.pass(t, status.Outcome{}, nil, func(pass *status.Pass) {
		pass.False(v1alpha1.ConditionSchemaReady, v1alpha1.ReasonMigrating, "From 1 to 2.")

		if err := pass.Flush(t.Context()); err != nil {
			t.Error(err)
		}

		var seen v1alpha1.Broker
		if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(f.broker), &seen); err != nil {
			t.Error(err)
		}

		if got := apimeta.FindStatusCondition(seen.Status.Conditions, v1alpha1.ConditionSchemaReady); got == nil {
			t.Error("the step is not shown while it runs")
		}

		pass.True(v1alpha1.ConditionSchemaReady, v1alpha1.ReasonMigrated, "Version 2.")
	})
	if err != nil {
		t.Fatal(err)
	}

	if got := f.condition(v1alpha1.ConditionSchemaReady); got.Status != metav1.ConditionTrue {
		t.Errorf("after the step: %+v", got)
	}

	f.check(t, kstatus.CurrentStatus)
}

func TestInterruptionsLeaveStatusAlone(t *testing.T) {
	t.Parallel()

	f := newFixture(t)

	if _, err := f.pass(t, status.Outcome{}, nil); err != nil {
		t.Fatal(err)
	}

	version := f.broker.ResourceVersion
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, "orders-api", errors.New("changed"))

	if _, err := f.pass(t, status.Outcome{}, conflict); !apierrors.IsConflict(err) {
		t.Errorf("the conflict came back as %v", err)
	}

	if f.broker.ResourceVersion != version {
		t.Error("a lost race was written to status")
	}
}

func TestPassOverThePastWritesNothing(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	late := f.writer.Begin(f.broker.DeepCopy())

	if _, err := f.pass(t, status.Outcome{}, nil); err != nil {
		t.Fatal(err)
	}

	result, err := late.Finish(t.Context(), status.Stall(v1alpha1.ReasonConflict, "Another was first."), nil)
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("result %+v, error %v", result, err)
	}

	f.refresh(t)
	f.check(t, kstatus.CurrentStatus)
}

func TestGoneObjectEndsThePass(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	pass := f.writer.Begin(f.broker)

	if err := f.client.Delete(t.Context(), f.broker); err != nil {
		t.Fatal(err)
	}

	if _, err := pass.Finish(t.Context(), status.Outcome{}, nil); err != nil {
		t.Errorf("finishing over a deleted object: %v", err)
	}
}

func TestLongMessagesAreCutAtACharacter(t *testing.T) {
	t.Parallel()

	f := newFixture(t)

	if _, err := f.pass(t, status.Stall(v1alpha1.ReasonInvalid, strings.Repeat("ü", 1000)), nil); err != nil {
		t.Fatal(err)
	}

	f.check(t, kstatus.FailedStatus)

	if got := f.condition(v1alpha1.ConditionReady).Message; !strings.HasSuffix(got, "ü…") {
		t.Errorf("message ends with %q", got[len(got)-8:])
	}
}
