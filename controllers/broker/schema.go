package broker

import (
	"context"
	"errors"
	"fmt"
	"math"

	ctrl "sigs.k8s.io/controller-runtime"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/internal/store"
)

// migrate brings the schema to this release's version. What it is about to do is shown before, because it may take
// minutes on a large schema.
func (r *Reconciler) migrate(ctx context.Context, w *work) (status.Outcome, error) {
	if w.schema == nil {
		r.migrated(w)

		return status.Outcome{}, nil
	}

	from, to := w.schema.Have, w.schema.Want
	if from > to {
		message := fmt.Sprintf("Schema %q is at version %d, and this release knows versions up to %d: it was migrated by a "+
			"newer release, which must go on running it. Schemas are never migrated back.", w.config.Schema, from, to)
		w.pass.False(v1alpha1.ConditionSchemaReady, v1alpha1.ReasonSchemaTooNew, message)

		return status.Stall(v1alpha1.ReasonSchemaTooNew, message).Again(checkEvery), nil
	}

	message := fmt.Sprintf("Schema %q is being migrated from version %d to %d.", w.config.Schema, from, to)
	w.pass.False(v1alpha1.ConditionSchemaReady, v1alpha1.ReasonMigrating, message)

	if err := w.pass.Flush(ctx); err != nil {
		return status.Outcome{}, err
	}

	logger := ctrl.LoggerFrom(ctx)

	result, err := r.Databases.Migrate(ctx, w.key(), w.config, func(version int, name string) {
		logger.Info("Migrating the schema", "version", version, "migration", name)
	})
	if err != nil {
		return r.migrationFailed(w, err)
	}

	if result.From != result.To {
		w.pass.Normal(v1alpha1.ReasonMigrated,
			fmt.Sprintf("Schema %q was migrated from version %d to %d.", w.config.Schema, result.From, result.To))
	}

	// The pool opens to the other reconcilers when it sees the new version.
	if outcome, err := r.connect(ctx, w); err != nil || !outcome.IsDone() {
		return outcome, err
	}

	r.migrated(w)

	return status.Outcome{}, nil
}

func (r *Reconciler) migrated(w *work) {
	version := store.LatestSchemaVersion()
	w.broker.Status.SchemaVersion = int32(min(version, math.MaxInt32)) //nolint:gosec // bounded in the same expression
	w.pass.True(v1alpha1.ConditionSchemaReady, v1alpha1.ReasonMigrated,
		fmt.Sprintf("Schema %q is at version %d.", w.config.Schema, version))
}

// migrationFailed tells a failure that may pass from one that needs somebody.
func (r *Reconciler) migrationFailed(w *work, err error) (status.Outcome, error) {
	if errors.Is(err, context.Canceled) {
		return status.Outcome{}, err
	}

	if errors.Is(err, store.ErrSchema) {
		message := fmt.Sprintf("Schema %q is not what the migrations of this release make: %s.", w.config.Schema, err)
		w.pass.False(v1alpha1.ConditionSchemaReady, v1alpha1.ReasonMigrationFailed, message)

		return status.Stall(v1alpha1.ReasonMigrationFailed, message).Again(checkEvery), nil
	}

	fault, text := store.Diagnose(err)
	message := fmt.Sprintf("The migration was rolled back: %s.", text)

	if fault == store.FaultPrivilege {
		message = "The migration was rolled back: the user needs the privilege CREATE on the database, or on the schema."
		w.pass.False(v1alpha1.ConditionSchemaReady, v1alpha1.ReasonDatabaseUnsupported, message)

		return status.Stall(v1alpha1.ReasonDatabaseUnsupported, message).Again(checkEvery), nil
	}

	w.pass.False(v1alpha1.ConditionSchemaReady, v1alpha1.ReasonMigrationFailed, message)

	return status.Outcome{}, status.Retry(v1alpha1.ReasonMigrationFailed, message, err)
}
