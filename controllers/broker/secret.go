package broker

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/finalizer"
	"deadletter.dev/deadletter/controllers/status"
)

// The keys of a managed database's Secret.
const (
	usernameKey = "username"
	passwordKey = "password"
	databaseKey = "database"
	hostKey     = "host"
	portKey     = "port"
	uriKey      = v1alpha1.DefaultSecretKey
)

// credentials makes sure that a managed database's Secret exists. It is generated once: a database remembers the
// password that it was created with, so a new one would lock everybody out.
func (r *Reconciler) credentials(ctx context.Context, w *work) (status.Outcome, error) {
	name := postgresName(w.broker)

	secret, err := r.secret(ctx, w.broker.Namespace, name)
	if err != nil {
		return status.Outcome{}, err
	}

	if secret == nil {
		return r.generate(ctx, w)
	}

	for _, key := range []string{usernameKey, passwordKey, databaseKey, uriKey} {
		if len(secret.Data[key]) == 0 {
			message := fmt.Sprintf("Secret %q lacks the key %q of a managed database.", name, key)
			w.pass.False(v1alpha1.ConditionDatabaseReady, v1alpha1.ReasonSecretInvalid, message)

			return status.Stall(v1alpha1.ReasonSecretInvalid, message), nil
		}
	}

	return status.Outcome{}, r.keepOwner(ctx, w.broker, secret)
}

func (r *Reconciler) generate(ctx context.Context, w *work) (status.Outcome, error) {
	name := postgresName(w.broker)

	left, err := r.leftOver(ctx, w.broker)
	if err != nil {
		return status.Outcome{}, err
	}

	if left != "" {
		message := fmt.Sprintf("Secret %q is gone, and %s still has a database with the password that was in it. "+
			"Restore the Secret, or delete the StatefulSet and the volume claim to start with an empty database.", name, left)
		w.pass.False(v1alpha1.ConditionDatabaseReady, v1alpha1.ReasonSecretNotFound, message)

		return status.Stall(v1alpha1.ReasonSecretNotFound, message).Again(checkEvery), nil
	}

	err = r.Client.Create(ctx, newCredentials(w.broker), status.FieldOwner)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return status.Outcome{}, fmt.Errorf("create Secret %s: %w", name, err)
	}

	return status.Outcome{}, nil
}

// leftOver names what an earlier database of this name left behind.
func (r *Reconciler) leftOver(ctx context.Context, broker *v1alpha1.Broker) (string, error) {
	for _, remainder := range []struct {
		object client.Object
		kind   string
		name   string
	}{
		{&corev1.PersistentVolumeClaim{}, "volume claim", claimName(broker)},
		{&appsv1.StatefulSet{}, "StatefulSet", postgresName(broker)},
	} {
		err := r.Reader.Get(ctx, types.NamespacedName{Namespace: broker.Namespace, Name: remainder.name}, remainder.object)
		if err == nil {
			return fmt.Sprintf("%s %q", remainder.kind, remainder.name), nil
		}

		if !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("read %s %s: %w", remainder.kind, remainder.name, err)
		}
	}

	return "", nil
}

// newCredentials generates the credentials of a managed database.
func newCredentials(broker *v1alpha1.Broker) *corev1.Secret {
	var (
		password = rand.Text()
		host     = fmt.Sprintf("%s.%s.svc", postgresName(broker), broker.Namespace)
		port     = strconv.Itoa(int(postgresPort))
	)

	uri := url.URL{
		Scheme: "postgresql",
		User:   url.UserPassword(product, password),
		Host:   host + ":" + port,
		Path:   "/" + product,
		// The official image has no certificate.
		RawQuery: "sslmode=disable",
	}

	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: broker.Namespace,
			Name:      postgresName(broker),
			Labels:    objectLabels(broker, componentPostgres),
		},
		Type: corev1.SecretTypeOpaque,
		StringData: map[string]string{
			usernameKey: product,
			passwordKey: password,
			databaseKey: product,
			hostKey:     host,
			portKey:     port,
			uriKey:      uri.String(),
		},
	}

	if broker.EffectiveDeletionPolicy() == v1alpha1.BrokerDeletionDelete {
		secret.OwnerReferences = []metav1.OwnerReference{ownerOf(broker)}
	}

	return secret
}

// keepOwner ties the generated Secret's life to the Broker's exactly when the volume's is: a volume that is kept is of
// no use without the password. A Secret that somebody else made is left alone.
func (r *Reconciler) keepOwner(ctx context.Context, broker *v1alpha1.Broker, secret *corev1.Secret) error {
	if secret.Labels[labelManagedBy] != managedBy {
		return nil
	}

	var (
		before  = secret.DeepCopy()
		isOwned = slices.ContainsFunc(secret.OwnerReferences, func(reference metav1.OwnerReference) bool {
			return reference.UID == broker.UID
		})
		wanted = broker.EffectiveDeletionPolicy() == v1alpha1.BrokerDeletionDelete
	)

	if isOwned == wanted {
		return nil
	}

	secret.OwnerReferences = slices.DeleteFunc(secret.OwnerReferences, func(reference metav1.OwnerReference) bool {
		return reference.Kind == brokerKind && strings.HasPrefix(reference.APIVersion, v1alpha1.GroupName+"/")
	})

	if wanted {
		secret.OwnerReferences = append(secret.OwnerReferences, ownerOf(broker))
	}

	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, secret, patch, status.FieldOwner); err != nil {
		return fmt.Errorf("own Secret %s: %w", secret.Name, err)
	}

	return nil
}

const brokerKind = "Broker"

func ownerOf(broker *v1alpha1.Broker) metav1.OwnerReference {
	return *metav1.NewControllerRef(broker, v1alpha1.GroupVersion.WithKind(brokerKind))
}

// keepFinalizer holds a Broker back from deletion only when there is something to do first: the schema in a database
// that is not the operator's own is dropped. Volumes are left to their StatefulSet.
func (r *Reconciler) keepFinalizer(ctx context.Context, broker *v1alpha1.Broker) error {
	before := broker.DeepCopy()
	wanted := !broker.IsManaged() && broker.EffectiveDeletionPolicy() == v1alpha1.BrokerDeletionDelete

	changed := controllerutil.RemoveFinalizer
	if wanted {
		changed = controllerutil.AddFinalizer
	}

	if !changed(broker, v1alpha1.Finalizer) {
		return nil
	}

	return finalizer.Write(ctx, r.Client, broker, before)
}
