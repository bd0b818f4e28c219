package cel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/api/v1alpha1"
)

// TestSchemaDefaultsAgreeWithTheCode compares the defaults of the schema with what the Go type says of an object that
// did not pass through an API server. A default that is only in the schema shows up here as well.
func TestSchemaDefaultsAgreeWithTheCode(t *testing.T) {
	t.Parallel()

	var (
		broker v1alpha1.Broker
		secret v1alpha1.SecretKeyReference
		queue  v1alpha1.Queue
		replay v1alpha1.Replay
	)

	want := map[string]map[string]any{
		"Broker": {
			"spec.allowedNamespaces.from": broker.Spec.AllowedNamespaces.EffectiveFrom(),
			"spec.api":                    map[string]any{"replicas": broker.EffectiveReplicas()},
			"spec.api.replicas":           broker.EffectiveReplicas(),
			"spec.database.secretRef.key": secret.EffectiveKey(),
			"spec.deletionPolicy":         broker.EffectiveDeletionPolicy(),
			"spec.schema":                 broker.EffectiveSchema(),
			"spec.undeclaredQueues":       broker.EffectiveUndeclaredQueues(),
		},
		"Queue": {
			"spec":                map[string]any{"state": queue.EffectiveState()},
			"spec.deletionPolicy": queue.EffectiveDeletionPolicy(),
			"spec.state":          queue.EffectiveState(),
		},
		"Replay": {
			"spec.mode":           replay.EffectiveMode(),
			"spec.onDelete":       replay.EffectiveOnDelete(),
			"spec.runID":          replay.EffectiveRunID(),
			"spec.selector.scope": replay.Spec.Selector.EffectiveScope(),
		},
	}

	for _, kind := range kinds {
		got := map[string]string{}

		for _, place := range inputNodes(t, kind) {
			if place.schema.Default != nil && !isForeign(place) {
				got[place.String()] = string(place.schema.Default.Raw)
			}
		}

		encoded := map[string]string{}

		for path, value := range want[kind] {
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}

			encoded[path] = string(text)
		}

		if d := diff.Diff(encoded, got); d != "" {
			t.Errorf("%s (-code +schema):\n%s", kind, d)
		}
	}
}

// TestRulesAndCommentsNameTheDefaults holds the numbers that are repeated in CEL and in the field descriptions to the
// constants.
func TestRulesAndCommentsNameTheDefaults(t *testing.T) {
	t.Parallel()

	effective := (&v1alpha1.Queue{}).Effective()
	backoff := effective.Backoff

	rule := fmt.Sprintf("(has(self.initialSeconds) ? self.initialSeconds : %d) <= ", backoff.InitialSeconds) +
		fmt.Sprintf("(has(self.maxSeconds) ? self.maxSeconds : %d)", backoff.MaxSeconds)
	if !slices.ContainsFunc(inputNodes(t, "Queue"), func(n node) bool {
		return len(n.schema.XValidations) > 0 && n.schema.XValidations[0].Rule == rule
	}) {
		t.Errorf("no rule %s", rule)
	}

	described := map[string]map[string]any{
		"Broker": {
			"spec.database.managed.image":        v1alpha1.DefaultManagedImage,
			"spec.database.managed.storage.size": v1alpha1.DefaultManagedStorageSize,
		},
		"Queue": {
			"spec.maxRetries":                 effective.MaxRetries,
			"spec.backoff.initialSeconds":     backoff.InitialSeconds,
			"spec.backoff.factorPercent":      backoff.FactorPercent,
			"spec.backoff.maxSeconds":         backoff.MaxSeconds,
			"spec.visibilityTimeoutSeconds":   effective.VisibilityTimeoutSeconds,
			"spec.maxDeliveries":              effective.MaxDeliveries,
			"spec.retention.succeededSeconds": effective.Retention.SucceededSeconds,
			"spec.retention.deadSeconds":      effective.Retention.DeadSeconds,
			"spec.retention.onDeadExpiry":     "'" + effective.Retention.OnDeadExpiry + "'",
			"spec.overflow":                   "'" + effective.Overflow + "'",

			"spec.circuitBreaker.failurePercent":   v1alpha1.DefaultBreakerFailurePercent,
			"spec.circuitBreaker.minSample":        v1alpha1.DefaultBreakerMinSample,
			"spec.circuitBreaker.windowSeconds":    v1alpha1.DefaultBreakerWindowSeconds,
			"spec.circuitBreaker.openSeconds":      v1alpha1.DefaultBreakerOpenSeconds,
			"spec.circuitBreaker.halfOpenMessages": v1alpha1.DefaultBreakerHalfOpenMessages,
		},
		"Replay": {
			"spec.limits.maxMessages":          (&v1alpha1.ReplayLimits{}).EffectiveMaxMessages(),
			"spec.limits.maxReplaysPerMessage": (&v1alpha1.ReplayLimits{}).EffectiveMaxReplaysPerMessage(),
			"spec.canary.deadlineSeconds":      (&v1alpha1.ReplayCanary{}).EffectiveDeadlineSeconds(),
			"spec.canary.maxRedeathPercent":    (&v1alpha1.ReplayCanary{}).EffectiveMaxRedeathPercent(),
			"spec.abortWhen.minSample":         (&v1alpha1.ReplayAbort{}).EffectiveMinSample(),
		},
	}

	for kind, fields := range described {
		found := 0

		for _, place := range inputNodes(t, kind) {
			value, listed := fields[place.String()]
			if !listed {
				continue
			}

			found++

			text := strings.Join(strings.Fields(place.schema.Description), " ")
			if !strings.Contains(text, fmt.Sprintf("Unset means %v", value)) {
				t.Errorf("%s: the description of %s does not say that unset means %v", kind, place, value)
			}
		}

		if found != len(fields) {
			t.Errorf("%s: found %d of %d fields", kind, found, len(fields))
		}
	}
}
