package broker

import (
	"context"
	"errors"
	"fmt"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/databases"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/internal/store"
)

// source is the value of a Secret.
type source struct {
	secretName, key string
}

// sourceOf is where the URL of a Broker's database is found.
func sourceOf(broker *v1alpha1.Broker) source {
	if broker.IsManaged() {
		return source{postgresName(broker), uriKey}
	}

	return source{broker.Spec.Database.SecretRef.Name, broker.Spec.Database.SecretRef.EffectiveKey()}
}

// unresolved is why a Broker has no URL: a reason for status and a message.
type unresolved struct {
	reason, message string
}

// lookup reads the URL of a Broker's database and the identity of what it leads to.
func (r *Reconciler) lookup(
	ctx context.Context, broker *v1alpha1.Broker,
) (url, identity string, why *unresolved, err error) {
	from := sourceOf(broker)

	secret, err := r.secret(ctx, broker.Namespace, from.secretName)
	if err != nil {
		return "", "", nil, err
	}

	if secret == nil {
		return "", "", &unresolved{
			v1alpha1.ReasonSecretNotFound, fmt.Sprintf("Secret %q does not exist.", from.secretName),
		}, nil
	}

	value, found := secret.Data[from.key]
	if !found {
		return "", "", &unresolved{
			v1alpha1.ReasonSecretNotFound, fmt.Sprintf("Secret %q has no key %q.", from.secretName, from.key),
		}, nil
	}

	identity, err = store.Identity(string(value), broker.EffectiveSchema(), func(host string) string {
		return databases.QualifyHost(host, broker.Namespace)
	})
	if err == nil {
		return string(value), identity, nil, nil
	}

	// The cause may quote the value.
	return "", "", &unresolved{
		v1alpha1.ReasonSecretInvalid,
		fmt.Sprintf("The value of key %q in Secret %q is not a Postgres connection URI.", from.key, from.secretName),
	}, nil
}

// resolve finds the database's URL, and settles which Broker it belongs to.
func (r *Reconciler) resolve(ctx context.Context, w *work) (status.Outcome, error) {
	w.source = sourceOf(w.broker)
	w.broker.Status.Database.SecretName = w.source.secretName

	url, identity, why, err := r.lookup(ctx, w.broker)
	if err != nil {
		return status.Outcome{}, err
	}

	if why != nil {
		w.pass.False(v1alpha1.ConditionDatabaseReady, why.reason, why.message)

		if why.reason == v1alpha1.ReasonSecretNotFound {
			// Secrets often come later than what uses them; the watch tells.
			return status.Wait(0, why.reason, why.message), nil
		}

		return status.Stall(why.reason, why.message), nil
	}

	w.config = databases.Config{URL: url, Schema: w.broker.EffectiveSchema()}
	w.identity = identity

	return status.Outcome{}, nil
}

// connect reaches the database and asks for the schema's version.
func (r *Reconciler) connect(ctx context.Context, w *work) (status.Outcome, error) {
	_, err := r.Databases.Connect(ctx, w.key(), w.config)

	if w.schema = nil; err == nil || errors.As(err, &w.schema) {
		w.pass.True(v1alpha1.ConditionDatabaseReady, v1alpha1.ReasonConnected, "The database answers.")

		return status.Outcome{}, nil
	}

	if errors.Is(err, context.Canceled) {
		return status.Outcome{}, err
	}

	why := ""

	if w.broker.IsManaged() {
		found, err := r.hindrance(ctx, w.broker, componentPostgres)
		if err != nil {
			return status.Outcome{}, err
		}

		why = found
	}

	fault, text := store.Diagnose(err)
	reason, message := v1alpha1.ReasonDatabaseUnreachable, fmt.Sprintf("The database cannot be used: %s.", text)+why

	switch {
	case fault == store.FaultCredentials:
		reason = v1alpha1.ReasonCredentialsRejected
	case fault == store.FaultPrivilege:
		w.pass.False(v1alpha1.ConditionDatabaseReady, v1alpha1.ReasonDatabaseUnsupported, message)

		return status.Stall(v1alpha1.ReasonDatabaseUnsupported, message).Again(checkEvery), nil
	case w.broker.IsManaged() && w.broker.Status.SchemaVersion == 0:
		message = fmt.Sprintf("StatefulSet %q is starting the database.", postgresName(w.broker)) + why
		w.pass.False(v1alpha1.ConditionDatabaseReady, v1alpha1.ReasonProvisioning, message)

		return status.Wait(provisioningPoll, v1alpha1.ReasonProvisioning, message), nil
	}

	w.pass.False(v1alpha1.ConditionDatabaseReady, reason, message)

	return status.Outcome{}, status.Retry(reason, message, err)
}
