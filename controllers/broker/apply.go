package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
)

// foreignError means that an object of the name that the operator needs belongs to somebody else.
type foreignError struct {
	kind, name string
}

func (e *foreignError) Error() string {
	return fmt.Sprintf("%s %q exists and was not made for this Broker", e.kind, e.name)
}

// leavingError means that an object of the name that the operator needs is still on its way out.
type leavingError struct {
	kind, name string
}

func (e *leavingError) Error() string {
	return fmt.Sprintf("%s %q of an earlier Broker is being deleted", e.kind, e.name)
}

// apply makes an object of the Broker's what it should be, and returns the generation at which it is that. It writes
// only when what is wanted has changed since it was last applied, or when somebody has changed the object since.
func (r *Reconciler) apply(
	ctx context.Context, broker *v1alpha1.Broker, desired client.Object,
) (generation int64, err error) {
	wanted, err := r.render(broker, desired)
	if err != nil {
		return 0, err
	}

	live, err := r.existing(ctx, broker, desired)
	if err != nil {
		return 0, err
	}

	if live != nil {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", wanted.GetName(), err)
		}

		// The hash among the annotations tells of what is not wanted any more.
		if covers(content, wanted.Object, "kind", "apiVersion") {
			return live.GetGeneration(), nil
		}
	}

	applied := wanted.DeepCopy()

	err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), status.FieldOwner, client.ForceOwnership)
	if apierrors.IsInvalid(err) && live != nil {
		return r.overwrite(ctx, wanted, live)
	}

	if err != nil {
		return 0, fmt.Errorf("apply %s %s: %w", wanted.GetKind(), wanted.GetName(), err)
	}

	return applied.GetGeneration(), nil
}

// overwrite replaces whole lists. It is for what server-side apply cannot take back: an entry that somebody gave
// another key, such as a Service's port, stays theirs and clashes with ours. The fields it writes are then owned as if
// they had been applied, so that a later apply can remove them.
func (r *Reconciler) overwrite(
	ctx context.Context, wanted *unstructured.Unstructured, live client.Object,
) (generation int64, err error) {
	patch, err := json.Marshal(wanted.Object)
	if err != nil {
		return 0, fmt.Errorf("render %s: %w", wanted.GetName(), err)
	}

	if err := r.Client.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch), status.FieldOwner); err != nil {
		return 0, fmt.Errorf("overwrite %s %s: %w", wanted.GetKind(), wanted.GetName(), err)
	}

	owner := string(status.FieldOwner)

	patch, err = csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(owner), owner)
	if err != nil {
		return 0, fmt.Errorf("own the fields of %s: %w", wanted.GetName(), err)
	}

	if patch != nil {
		if err := r.Client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), status.FieldOwner); err != nil {
			return 0, fmt.Errorf("own the fields of %s %s: %w", wanted.GetKind(), wanted.GetName(), err)
		}
	}

	return live.GetGeneration(), nil
}

// render gives an object its owner and the hash of its content, in the form that is applied: without what only the
// cluster knows.
func (r *Reconciler) render(broker *v1alpha1.Broker, desired client.Object) (*unstructured.Unstructured, error) {
	scheme := r.Client.Scheme()
	if err := controllerutil.SetControllerReference(broker, desired, scheme); err != nil {
		return nil, fmt.Errorf("own %s: %w", desired.GetName(), err)
	}

	gvk, err := apiutil.GVKForObject(desired, scheme)
	if err != nil {
		return nil, fmt.Errorf("find the kind of %s: %w", desired.GetName(), err)
	}

	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(desired)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", desired.GetName(), err)
	}

	delete(content, "status")

	wanted := &unstructured.Unstructured{Object: withoutNulls(content)}
	wanted.SetGroupVersionKind(gvk)

	text, err := json.Marshal(wanted.Object)
	if err != nil {
		return nil, fmt.Errorf("hash %s: %w", desired.GetName(), err)
	}

	sum := sha256.Sum256(text)
	annotations := maps.Clone(wanted.GetAnnotations())

	if annotations == nil {
		annotations = make(map[string]string)
	}

	annotations[annotationApplied] = hex.EncodeToString(sum[:16])
	wanted.SetAnnotations(annotations)

	return wanted, nil
}

// existing returns the object as it is, or nil. The cache holds only what carries the operator's labels; before the
// first write it is made sure that nobody else has the name.
func (r *Reconciler) existing(
	ctx context.Context, broker *v1alpha1.Broker, desired client.Object,
) (client.Object, error) {
	live, ok := reflect.TypeAssert[client.Object](reflect.New(reflect.TypeOf(desired).Elem()))
	if !ok {
		return nil, fmt.Errorf("%T is no object", desired)
	}

	key := client.ObjectKeyFromObject(desired)

	err := r.Client.Get(ctx, key, live)
	if apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, key, live)
	}

	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // a missing object is an answer
	}

	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key.Name, err)
	}

	kind := reflect.TypeOf(live).Elem().Name()

	switch controller := metav1.GetControllerOf(live); {
	case !live.GetDeletionTimestamp().IsZero():
		return nil, &leavingError{kind, key.Name}
	case metav1.IsControlledBy(live, broker), controller == nil && isLeftBehind(live, broker):
		return live, nil
	case controller != nil && controller.Kind == brokerKind && controller.Name == broker.Name:
		return nil, &leavingError{kind, key.Name}
	default:
		return nil, &foreignError{kind, key.Name}
	}
}

// isLeftBehind recognises what a Broker of the same name was deleted without.
func isLeftBehind(object client.Object, broker *v1alpha1.Broker) bool {
	labels := object.GetLabels()

	return labels[labelManagedBy] == managedBy && labels[labelInstance] == broker.Name
}

// remove deletes an object of the Broker's if it exists.
func (r *Reconciler) remove(ctx context.Context, broker *v1alpha1.Broker, unwanted client.Object) error {
	live, err := r.existing(ctx, broker, unwanted)
	if isNotOurs(err) {
		return nil
	}

	if err != nil || live == nil {
		return err
	}

	uid := live.GetUID()

	err = r.Client.Delete(ctx, live, client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", unwanted.GetName(), err)
	}

	return nil
}

func isNotOurs(err error) bool {
	var (
		foreign *foreignError
		leaving *leavingError
	)

	return errors.As(err, &foreign) || errors.As(err, &leaving)
}

// withoutNulls drops the fields that a Go type writes as null, which would claim them.
func withoutNulls(content map[string]any) map[string]any {
	clean := make(map[string]any, len(content))

	for key, value := range content {
		switch typed := value.(type) {
		case nil:
			continue
		case map[string]any:
			clean[key] = withoutNulls(typed)
		case []any:
			clean[key] = elementsWithoutNulls(typed)
		default:
			clean[key] = value
		}
	}

	return clean
}

func elementsWithoutNulls(list []any) []any {
	clean := make([]any, len(list))

	for i, element := range list {
		if typed, ok := element.(map[string]any); ok {
			element = withoutNulls(typed)
		}

		clean[i] = element
	}

	return clean
}
