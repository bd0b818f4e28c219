package cel

import (
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestListsAreSharedBetweenOwners applies a list as two owners with different items. What identifies its items belongs
// to both; what is indivisible belongs to the last.
func TestListsAreSharedBetweenOwners(t *testing.T) {
	t.Parallel()

	api, namespace := connect(t)

	broker := func(template map[string]any) map[string]any {
		return map[string]any{
			"database": map[string]any{"managed": map[string]any{}},
			"api":      map[string]any{"podTemplate": template},
		}
	}
	replay := func(runID string, selector map[string]any) map[string]any {
		return map[string]any{"queueRef": map[string]any{"name": "q"}, "runID": runID, "selector": selector}
	}
	spread := func(key string) map[string]any {
		return map[string]any{"topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": int64(1)}
	}

	tests := map[string]struct {
		kind          string
		path          []string
		first, second map[string]any
		want          []any
	}{
		"categories": {
			kind:   "Replay",
			path:   []string{"spec", "selector", "categories"},
			first:  replay("1", map[string]any{"categories": []any{"A", "B"}}),
			second: replay("2", map[string]any{"categories": []any{"B", "C"}}),
			want:   []any{"A", "B", "C"},
		},
		"fingerprints": {
			kind:   "Replay",
			path:   []string{"spec", "selector", "fingerprints"},
			first:  replay("1", map[string]any{"fingerprints": []any{"00000000000000aa"}}),
			second: replay("2", map[string]any{"fingerprints": []any{"00000000000000bb"}}),
			want:   []any{"00000000000000aa", "00000000000000bb"},
		},
		"messageIDs": {
			kind:   "Replay",
			path:   []string{"spec", "selector", "messageIDs"},
			first:  replay("1", map[string]any{"messageIDs": []any{int64(1)}}),
			second: replay("2", map[string]any{"messageIDs": []any{int64(2)}}),
			want:   []any{int64(1), int64(2)},
		},
		"imagePullSecrets": {
			kind:   "Broker",
			path:   []string{"spec", "api", "podTemplate", "imagePullSecrets"},
			first:  broker(map[string]any{"imagePullSecrets": []any{map[string]any{"name": "a"}}}),
			second: broker(map[string]any{"imagePullSecrets": []any{map[string]any{"name": "b"}}}),
			want:   []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}},
		},
		"topologySpreadConstraints": {
			kind:   "Broker",
			path:   []string{"spec", "api", "podTemplate", "topologySpreadConstraints"},
			first:  broker(map[string]any{"topologySpreadConstraints": []any{spread("node")}}),
			second: broker(map[string]any{"topologySpreadConstraints": []any{spread("zone")}}),
			want:   []any{spread("node"), spread("zone")},
		},
		"tolerations are indivisible": {
			kind:   "Broker",
			path:   []string{"spec", "api", "podTemplate", "tolerations"},
			first:  broker(map[string]any{"tolerations": []any{map[string]any{"key": "a"}}}),
			second: broker(map[string]any{"tolerations": []any{map[string]any{"key": "b"}}}),
			want:   []any{map[string]any{"key": "b"}},
		},
	}

	number := 0

	for name, tc := range tests {
		number++
		object := string(rune('a' + number))

		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for owner, spec := range []map[string]any{tc.first, tc.second} {
				err := api.Apply(t.Context(),
					client.ApplyConfigurationFromUnstructured(newObject(tc.kind, namespace, object, spec)),
					client.FieldOwner("owner-"+string(rune('0'+owner))), client.ForceOwnership)
				if err != nil {
					t.Fatal(err)
				}
			}

			stored := newObject(tc.kind, namespace, object, nil)
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
				t.Fatal(err)
			}

			if d := diff.Diff(tc.want, find(stored.Object, tc.path)); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.path, d)
			}
		})
	}
}
