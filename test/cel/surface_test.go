package cel

import (
	"encoding/json"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/kubetest"
)

// TestColumns reads what `kubectl get` prints: it must answer whether something is stuck.
func TestColumns(t *testing.T) {
	t.Parallel()

	api, namespace := connect(t)
	past := time.Now().Add(-10*time.Minute - time.Second).UTC().Format(time.RFC3339)
	condition := func(kind, status, reason string) []any {
		return []any{map[string]any{
			"type": kind, "status": status, "reason": reason, "message": "why", "lastTransitionTime": past,
		}}
	}

	tests := map[string]struct {
		plural       string
		spec, status map[string]any
		columns      []string
		cells, wide  []any
	}{
		"Broker": {
			plural: "brokers",
			spec:   map[string]any{"database": map[string]any{"managed": map[string]any{}}},
			status: map[string]any{
				"conditions": condition("Ready", "True", "Ready"), "endpoint": "http://b.ns.svc:8080", "schemaVersion": int64(4),
				"api":      map[string]any{"replicas": int64(2), "readyReplicas": int64(1)},
				"database": map[string]any{"secretName": "b-postgres"},
			},
			columns: []string{"Name", "Ready", "Endpoint", "Schema", "Replicas", "Age"},
			cells:   []any{"columns", "True", "http://b.ns.svc:8080", "deadletter", 1.0},
			wide:    []any{4.0, "b-postgres", "Ready", "why"},
		},
		"Queue": {
			plural: "queues",
			status: map[string]any{
				"conditions": condition("Ready", "False", "Conflict"), "queueName": "Orders",
				"broker":      map[string]any{"name": "b", "namespace": "platform"},
				"messages":    map[string]any{"pending": int64(7), "processing": int64(0), "observedTime": past},
				"deadLetters": map[string]any{"count": int64(3), "oldestTime": past, "observedTime": past},

				"circuitBreaker": map[string]any{"state": "HalfOpen", "changeTime": past},
			},
			columns: []string{"Name", "Ready", "Pending", "Processing", "Dead", "Oldest Dead", "Age"},
			cells:   []any{"columns", "False", 7.0, 0.0, 3.0, "10m"},
			wide:    []any{"Orders", "Active", "HalfOpen", "b", "platform", "Conflict", "why"},
		},
		"Replay": {
			plural: "replays",
			spec: map[string]any{
				"queueRef": map[string]any{"name": "orders"}, "selector": map[string]any{"scope": "All"},
			},
			status: map[string]any{
				"conditions": condition("Succeeded", "Unknown", "Running"),
				"run":        map[string]any{"id": "1", "mode": "Preview", "hash": "sha256:0", "startTime": past},
				"counts": map[string]any{
					"matched": int64(9), "replayed": int64(4), "skipped": int64(1), "beyondLimit": int64(2),
					"succeeded": int64(3), "redied": int64(1), "pending": int64(0), "failed": int64(0),
				},
			},
			columns: []string{"Name", "Queue", "State", "Matched", "Replayed", "Succeeded", "Redied", "Age"},
			cells:   []any{"columns", "orders", "Running", 9.0, 4.0, 3.0, 1.0},
			wide:    []any{0.0, 1.0, 0.0, 2.0, "Preview", "1", "10m", "why"},
		},
	}

	for kind, tc := range tests {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()

			object := newObject(kind, namespace, "columns", tc.spec)
			if err := api.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}

			object.Object["status"] = tc.status
			if err := api.Status().Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}

			table := readTable(t, namespace, tc.plural)

			var columns []string

			for _, column := range table.ColumnDefinitions {
				if column.Priority == 0 {
					columns = append(columns, column.Name)
				}
			}

			if d := diff.Diff(tc.columns, columns); d != "" {
				t.Errorf("columns (-want +got):\n%s", d)
			}

			cells := table.Rows[0].Cells
			if d := diff.Diff(tc.cells, cells[:len(tc.cells)]); d != "" {
				t.Errorf("cells (-want +got):\n%s", d)
			}

			if d := diff.Diff(tc.wide, cells[len(tc.columns):]); d != "" {
				t.Errorf("cells of -o wide (-want +got):\n%s", d)
			}
		})
	}
}

func readTable(t *testing.T, namespace, plural string) metav1.Table {
	t.Helper()

	config := kubetest.Start(t)
	config.APIPath = "/apis"
	config.GroupVersion = &v1alpha1.GroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()

	api, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}

	raw, err := api.Get().Namespace(namespace).Resource(plural).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}

	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}

	if len(table.Rows) != 1 {
		t.Fatalf("want one row, got %d", len(table.Rows))
	}

	return table
}

// TestScale does what an autoscaler does to a Broker whose manifest says nothing about replicas.
func TestScale(t *testing.T) {
	t.Parallel()

	api, namespace := connect(t)

	broker := &v1alpha1.Broker{}
	broker.Namespace, broker.Name = namespace, "scaled"
	broker.Spec.Database.Managed = &v1alpha1.ManagedDatabase{}

	if err := api.Create(t.Context(), broker); err != nil {
		t.Fatal(err)
	}

	broker.Status.API = v1alpha1.BrokerAPIStatus{Replicas: ptr.To[int32](3), ReadyReplicas: ptr.To[int32](2)}
	broker.Status.Selector = "a=b"

	if err := api.Status().Update(t.Context(), broker); err != nil {
		t.Fatal(err)
	}

	scale := &autoscalingv1.Scale{}
	if err := api.SubResource("scale").Get(t.Context(), broker, scale); err != nil {
		t.Fatal(err)
	}

	if scale.Spec.Replicas != 1 || scale.Status.Replicas != 3 || scale.Status.Selector != "a=b" {
		t.Errorf("want 1 replica asked for, 3 there and selector a=b, got %+v %+v", scale.Spec, scale.Status)
	}

	scale.Spec.Replicas = 0
	if err := api.SubResource("scale").Update(t.Context(), broker, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}

	if err := api.Get(t.Context(), client.ObjectKeyFromObject(broker), broker); err != nil {
		t.Fatal(err)
	}

	if got := broker.EffectiveReplicas(); got != 0 {
		t.Errorf("want 0 replicas stored, got %d", got)
	}
}
