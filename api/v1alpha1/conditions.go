package v1alpha1

// The condition types. A condition is positive (True is the normal state), except Reconciling and Stalled, which follow
// kstatus: they are present with status True while they apply, and absent otherwise.
const (
	// ConditionReady sums up the object: True means that it does what its spec asks for.
	ConditionReady = "Ready"

	// ConditionAccepted tells whether the spec is valid and permitted. Only an edit, here or on the object it refers to,
	// turns a False into a True.
	ConditionAccepted = "Accepted"

	// ConditionReconciling is True while the controller is on its way to the state the spec asks for, retries included.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is True when the controller cannot go on without somebody's help.
	ConditionStalled = "Stalled"

	// ConditionDatabaseReady tells whether the Broker's Postgres answers with the credentials of its Secret.
	ConditionDatabaseReady = "DatabaseReady"

	// ConditionSchemaReady tells whether the Broker's schema is migrated to the version the API needs.
	ConditionSchemaReady = "SchemaReady"

	// ConditionAvailable tells whether the Broker's queue API has a ready replica.
	ConditionAvailable = "Available"

	// ConditionSynced tells whether the Queue's settings are stored in its Broker's database, where the queue API reads
	// them.
	ConditionSynced = "Synced"

	// ConditionSucceeded is the outcome of a Replay's run: Unknown until the run ends.
	ConditionSucceeded = "Succeeded"

	// ConditionSuspended tells whether a Replay is held back by `suspend`.
	ConditionSuspended = "Suspended"
)

// The reasons any kind may give.
const (
	// ReasonPending means that the controller has not come to a verdict yet.
	ReasonPending = "Pending"

	// ReasonProgressing means that the controller is carrying out the spec.
	ReasonProgressing = "Progressing"

	// ReasonRetrying means that a step failed in a way that may pass, and is tried again.
	ReasonRetrying = "Retrying"

	// ReasonReady means that the object does what its spec asks for.
	ReasonReady = "Ready"

	// ReasonAccepted means that the spec is valid and permitted.
	ReasonAccepted = "Accepted"

	// ReasonInvalid means that the spec breaks a rule that the schema cannot express.
	ReasonInvalid = "Invalid"

	// ReasonConflict means that another object already claims what this one asks for: a Queue the same physical queue, a
	// Broker the same database schema.
	ReasonConflict = "Conflict"

	// ReasonDeleting means that the object is being deleted and its finalizer is at work.
	ReasonDeleting = "Deleting"

	// ReasonDatabaseUnreachable means that the Broker's database did not answer.
	ReasonDatabaseUnreachable = "DatabaseUnreachable"
)

// The reasons a Broker gives.
const (
	// ReasonSecretNotFound means that the Secret with the database's URI, or the key in it, does not exist.
	ReasonSecretNotFound = "SecretNotFound"

	// ReasonSecretInvalid means that the Secret's value is not a Postgres connection URI.
	ReasonSecretInvalid = "SecretInvalid"

	// ReasonProvisioning means that the managed database is being created or is starting.
	ReasonProvisioning = "Provisioning"

	// ReasonConnected means that the database answers.
	ReasonConnected = "Connected"

	// ReasonCredentialsRejected means that the server answers and refuses the user, the password or the database's name.
	ReasonCredentialsRejected = "CredentialsRejected"

	// ReasonDatabaseUnsupported means that the database is too old, or lacks a privilege the schema needs.
	ReasonDatabaseUnsupported = "DatabaseUnsupported"

	// ReasonMigrating means that the schema is being migrated.
	ReasonMigrating = "Migrating"

	// ReasonMigrationFailed means that a migration was rolled back or that the migrated schema failed its validation.
	ReasonMigrationFailed = "MigrationFailed"

	// ReasonSchemaTooNew means that a newer release has migrated the schema; this one must not touch it.
	ReasonSchemaTooNew = "SchemaTooNew"

	// ReasonMigrated means that the schema is at the version the API needs.
	ReasonMigrated = "Migrated"

	// ReasonMinimumReplicasAvailable means that at least one replica of the queue API is ready.
	ReasonMinimumReplicasAvailable = "MinimumReplicasAvailable"

	// ReasonMinimumReplicasUnavailable means that no replica of the queue API is ready; as a reason of Ready, that
	// some are not.
	ReasonMinimumReplicasUnavailable = "MinimumReplicasUnavailable"

	// ReasonScaledToZero means that `api.replicas` is 0, so that nothing serves.
	ReasonScaledToZero = "ScaledToZero"

	// ReasonRolloutFailed means that the Deployment of the queue API gave up on its rollout.
	ReasonRolloutFailed = "RolloutFailed"
)

// The reasons a Queue gives.
const (
	// ReasonBrokerNotFound means that no Broker serves the Queue.
	ReasonBrokerNotFound = "BrokerNotFound"

	// ReasonBrokerNotReady means that the Queue's Broker has no database or schema to work with yet.
	ReasonBrokerNotReady = "BrokerNotReady"

	// ReasonBrokerNotAvailable means that no pod of the Broker's queue API is ready, so that messages are neither taken
	// nor handed out.
	ReasonBrokerNotAvailable = "BrokerNotAvailable"

	// ReasonRefNotPermitted means that the referenced object does not admit this namespace, or does not exist: the two
	// are not told apart across namespaces.
	ReasonRefNotPermitted = "RefNotPermitted"

	// ReasonSynced means that the Queue's settings are stored in the database.
	ReasonSynced = "Synced"

	// ReasonPaused means that the Queue is in order and `state` is 'Paused', so that nothing can be claimed.
	ReasonPaused = "Paused"

	// ReasonNotEmpty means that `deletionPolicy` is 'DeleteIfEmpty' and the queue still holds messages.
	ReasonNotEmpty = "NotEmpty"

	// ReasonReleased means that the Queue was deleted and its messages were kept.
	ReasonReleased = "Released"

	// ReasonDeleted means that the Queue was deleted together with its messages.
	ReasonDeleted = "Deleted"
)

// The reasons a Replay gives.
const (
	// ReasonQueueNotFound means that the Queue does not exist in the Replay's namespace.
	ReasonQueueNotFound = "QueueNotFound"

	// ReasonQueueNotReady means that the Queue is not stored in a database yet.
	ReasonQueueNotReady = "QueueNotReady"

	// ReasonWaitingForPreviousRun means that another run of this Replay or on this queue is still active.
	ReasonWaitingForPreviousRun = "WaitingForPreviousRun"

	// ReasonWaitingForGate means that `gate` holds the run back.
	ReasonWaitingForGate = "WaitingForGate"

	// ReasonTargetNotFound means that the Queue that messages are to go to does not exist in the Replay's namespace.
	ReasonTargetNotFound = "TargetNotFound"

	// ReasonTargetNotReady means that the Queue that messages are to go to cannot take them yet.
	ReasonTargetNotReady = "TargetNotReady"

	// ReasonCanaryRunning means that the canary is at work, and that the rest waits for it.
	ReasonCanaryRunning = "CanaryRunning"

	// ReasonCanaryOverdue means that the end of canary messages is not known after the deadline. The rest goes on waiting.
	ReasonCanaryOverdue = "CanaryOverdue"

	// ReasonAborted means that the run has ended itself because too many of its messages died again.
	ReasonAborted = "Aborted"

	// ReasonRunning means that the run is under way.
	ReasonRunning = "Running"

	// ReasonSuspended means that `suspend` holds the run back.
	ReasonSuspended = "Suspended"

	// ReasonNotSuspended means that nothing holds the run back.
	ReasonNotSuspended = "NotSuspended"

	// ReasonCompleted means that every selected dead letter was replayed or skipped, each with a record.
	ReasonCompleted = "Completed"

	// ReasonNothingMatched means that no dead letter matched the selector.
	ReasonNothingMatched = "NothingMatched"

	// ReasonPreviewReady means that the Preview is in status, and that nothing was moved.
	ReasonPreviewReady = "PreviewReady"

	// ReasonAlreadyExecuted means that this run took place before the object was created again: its recorded outcome is
	// shown, and nothing was moved.
	ReasonAlreadyExecuted = "AlreadyExecuted"

	// ReasonRunIDReused means that `runID` names a finished run of another spec.
	ReasonRunIDReused = "RunIDReused"

	// ReasonCancelled means that the run was cancelled; what it had not replayed is still a dead letter.
	ReasonCancelled = "Cancelled"
)
