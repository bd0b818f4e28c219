-- A run is found by its key, never by the UID of the resource that asked for it: a resource that is deleted and applied
-- again meets its old run here and moves nothing. queue_name outlives the queue on purpose.
CREATE TABLE {schema}.replay_run (
    id                      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id                bigint      NOT NULL,
    queue_name              text        NOT NULL,
    namespace               text        NOT NULL,
    name                    text        NOT NULL,
    run_id                  text        NOT NULL,
    mode                    text        NOT NULL CHECK (mode IN ('Preview', 'Execute')),
    spec_hash               text        NOT NULL,
    state                   text        NOT NULL CHECK (state IN ('Running', 'Completed', 'Cancelled')),
    detached                boolean     NOT NULL DEFAULT false,
    max_replays_per_message integer     NOT NULL CHECK (max_replays_per_message >= 0),
    messages_per_second     integer     NOT NULL CHECK (messages_per_second >= 0),
    matched                 bigint      NOT NULL CHECK (matched >= 0),
    remaining               bigint      NOT NULL CHECK (remaining >= 0),
    replayed                bigint      NOT NULL DEFAULT 0 CHECK (replayed >= 0),
    skipped                 bigint      NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    categories              jsonb       NOT NULL,
    oldest_died_at          timestamptz,
    newest_died_at          timestamptz,
    started_at              timestamptz NOT NULL,
    completed_at            timestamptz,
    UNIQUE (queue_name, namespace, name, run_id, mode),
    CHECK ((state = 'Running') = (completed_at IS NULL)),
    CHECK (state <> 'Completed' OR remaining = 0)
);

CREATE INDEX replay_run_active ON {schema}.replay_run (id) WHERE state = 'Running';

-- The frozen selection. died_at pins the death that was selected: a letter that has died again since is another death.
CREATE TABLE {schema}.replay_item (
    run_id     bigint      NOT NULL REFERENCES {schema}.replay_run (id) ON DELETE CASCADE,
    position   bigint      NOT NULL,
    message_id bigint      NOT NULL,
    died_at    timestamptz NOT NULL,
    state      text        NOT NULL CHECK (state IN ('selected', 'replayed', 'skipped', 'cancelled')),
    PRIMARY KEY (run_id, position)
);

-- A dead letter is in at most one active run.
CREATE UNIQUE INDEX replay_item_active ON {schema}.replay_item (message_id) WHERE state = 'selected';
CREATE INDEX replay_item_todo ON {schema}.replay_item (run_id, position) WHERE state = 'selected';
