package status

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"deadletter.dev/deadletter/api/v1alpha1"
)

// state is a condition's status and reason; the zero one is that of a condition that is not there.
type state struct {
	status metav1.ConditionStatus
	reason string
}

func yes(reason string) state   { return state{metav1.ConditionTrue, reason} }
func no(reason string) state    { return state{metav1.ConditionFalse, reason} }
func maybe(reason string) state { return state{metav1.ConditionUnknown, reason} }

func TestTurns(t *testing.T) {
	t.Parallel()

	const (
		none    = ""
		normal  = corev1.EventTypeNormal
		warning = corev1.EventTypeWarning

		accepted, ready, stalled = v1alpha1.ConditionAccepted, v1alpha1.ConditionReady, v1alpha1.ConditionStalled
		database, schema         = v1alpha1.ConditionDatabaseReady, v1alpha1.ConditionSchemaReady
		available, synced        = v1alpha1.ConditionAvailable, v1alpha1.ConditionSynced
		suspended, succeeded     = v1alpha1.ConditionSuspended, v1alpha1.ConditionSucceeded
	)

	pending := maybe(v1alpha1.ReasonPending)

	for _, test := range []struct {
		what, kind    string
		before, after state
		want          string
	}{
		// Every kind.
		{"not known yet", accepted, state{}, pending, none},
		{"accepted", accepted, pending, yes(v1alpha1.ReasonAccepted), normal},
		{"invalid from the start", accepted, pending, no(v1alpha1.ReasonInvalid), warning},
		{"invalid after an edit", accepted, yes(v1alpha1.ReasonAccepted), no(v1alpha1.ReasonInvalid), warning},
		{"another fault", accepted, no(v1alpha1.ReasonInvalid), no(v1alpha1.ReasonConflict), warning},
		{"the same fault", accepted, no(v1alpha1.ReasonConflict), no(v1alpha1.ReasonConflict), none},
		{"stalled", stalled, state{}, yes(v1alpha1.ReasonConflict), warning},
		{"stalled by something else", stalled, yes(v1alpha1.ReasonConflict), yes(v1alpha1.ReasonInvalid), warning},
		{"still stalled", stalled, yes(v1alpha1.ReasonConflict), yes(v1alpha1.ReasonConflict), none},
		{"on the way", v1alpha1.ConditionReconciling, state{}, yes(v1alpha1.ReasonDatabaseUnreachable), none},
		{"ready", ready, no(v1alpha1.ReasonProgressing), yes(v1alpha1.ReasonReady), normal},
		{"ready in another way", ready, yes(v1alpha1.ReasonReady), yes(v1alpha1.ReasonPaused), none},
		{"not ready for a while", ready, yes(v1alpha1.ReasonReady), no(v1alpha1.ReasonProgressing), none},
		{"not ready, retried", ready, yes(v1alpha1.ReasonReady), no(v1alpha1.ReasonRetrying), none},

		// Broker.
		{"waits for its Secret", database, pending, no(v1alpha1.ReasonSecretNotFound), warning},
		{"provisioning", database, pending, no(v1alpha1.ReasonProvisioning), none},
		{"provisioned again", database, yes(v1alpha1.ReasonConnected), no(v1alpha1.ReasonProvisioning), normal},
		{"connected", database, no(v1alpha1.ReasonProvisioning), yes(v1alpha1.ReasonConnected), normal},
		{"lost", database, yes(v1alpha1.ReasonConnected), no(v1alpha1.ReasonDatabaseUnreachable), warning},
		{
			"back, but locked", database,
			no(v1alpha1.ReasonDatabaseUnreachable), no(v1alpha1.ReasonCredentialsRejected), warning,
		},
		{"migrating", schema, pending, no(v1alpha1.ReasonMigrating), none},
		{"migrating again", schema, yes(v1alpha1.ReasonMigrated), no(v1alpha1.ReasonMigrating), normal},
		{"migration failed", schema, no(v1alpha1.ReasonMigrating), no(v1alpha1.ReasonMigrationFailed), warning},
		{"too new", schema, yes(v1alpha1.ReasonMigrated), no(v1alpha1.ReasonSchemaTooNew), warning},
		{"first pod starting", available, pending, no(v1alpha1.ReasonMinimumReplicasUnavailable), none},
		{
			"pods lost", available,
			yes(v1alpha1.ReasonMinimumReplicasAvailable), no(v1alpha1.ReasonMinimumReplicasUnavailable), warning,
		},
		{
			"scaled to zero", available,
			yes(v1alpha1.ReasonMinimumReplicasAvailable), no(v1alpha1.ReasonScaledToZero), normal,
		},
		{
			"scaled from zero", available,
			no(v1alpha1.ReasonScaledToZero), no(v1alpha1.ReasonMinimumReplicasUnavailable), none,
		},

		// Queue.
		{"no Broker", accepted, pending, no(v1alpha1.ReasonBrokerNotFound), warning},
		{"Broker gone", accepted, yes(v1alpha1.ReasonAccepted), no(v1alpha1.ReasonBrokerNotFound), warning},
		{"no longer admitted", accepted, yes(v1alpha1.ReasonAccepted), no(v1alpha1.ReasonRefNotPermitted), warning},
		{"Broker starting", synced, pending, no(v1alpha1.ReasonBrokerNotReady), none},
		{"Broker without a database", synced, yes(v1alpha1.ReasonSynced), no(v1alpha1.ReasonBrokerNotReady), warning},
		{"database gone", synced, yes(v1alpha1.ReasonSynced), maybe(v1alpha1.ReasonDatabaseUnreachable), warning},
		{"refused for now", synced, yes(v1alpha1.ReasonSynced), maybe(v1alpha1.ReasonRetrying), warning},
		{"deletion held up", ready, yes(v1alpha1.ReasonReady), no(v1alpha1.ReasonNotEmpty), warning},
		{"deletion still held up", ready, no(v1alpha1.ReasonNotEmpty), no(v1alpha1.ReasonNotEmpty), none},
		{"deleting", ready, yes(v1alpha1.ReasonReady), no(v1alpha1.ReasonDeleting), none},

		// Replay.
		{"suspended", suspended, no(v1alpha1.ReasonNotSuspended), yes(v1alpha1.ReasonSuspended), normal},
		{"resumed", suspended, yes(v1alpha1.ReasonSuspended), no(v1alpha1.ReasonNotSuspended), normal},
		{"never suspended", suspended, pending, no(v1alpha1.ReasonNotSuspended), none},
		{"preview ready", succeeded, maybe(v1alpha1.ReasonProgressing), yes(v1alpha1.ReasonPreviewReady), normal},
		{"preview approved", succeeded, yes(v1alpha1.ReasonPreviewReady), maybe(v1alpha1.ReasonProgressing), normal},
		{"approved, suspended", succeeded, yes(v1alpha1.ReasonPreviewReady), maybe(v1alpha1.ReasonSuspended), normal},
		{
			"another runID, behind the last one", succeeded,
			yes(v1alpha1.ReasonCompleted), maybe(v1alpha1.ReasonWaitingForPreviousRun), normal,
		},
		{"another runID after a failure", succeeded, no(v1alpha1.ReasonCancelled), maybe(v1alpha1.ReasonRunning), none},
		{"no Queue", succeeded, pending, maybe(v1alpha1.ReasonQueueNotFound), warning},
		{"Queue not ready", succeeded, pending, maybe(v1alpha1.ReasonQueueNotReady), none},
		{"runID reused", succeeded, pending, no(v1alpha1.ReasonRunIDReused), warning},
		{"database gone under a run", ready, no(v1alpha1.ReasonRunning), no(v1alpha1.ReasonDatabaseUnreachable), warning},
	} {
		var before *metav1.Condition
		if test.before.status != "" {
			before = &metav1.Condition{Type: test.kind, Status: test.before.status, Reason: test.before.reason}
		}

		after := &metav1.Condition{Type: test.kind, Status: test.after.status, Reason: test.after.reason}
		if got := turn(before, after); got != test.want {
			t.Errorf("%s (%s): %q, want %q", test.what, test.kind, got, test.want)
		}
	}
}

func TestNoReasonIsBothUrgentAndIntended(t *testing.T) {
	t.Parallel()

	for _, reason := range urgent {
		if slices.Contains(intended, reason) {
			t.Errorf("%s is both", reason)
		}
	}
}
