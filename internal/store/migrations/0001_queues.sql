-- A queue comes into being at its first enqueue or when a Queue resource declares it.
CREATE TABLE {schema}.queue (
    id                          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name                        text        NOT NULL UNIQUE CHECK (octet_length(name) BETWEEN 1 AND 255),
    owner_namespace             text,
    owner_name                  text,
    max_retries                 integer     NOT NULL CHECK (max_retries BETWEEN 1 AND 10),
    backoff_initial_ms          bigint      NOT NULL CHECK (backoff_initial_ms >= 0),
    backoff_factor_percent      integer     NOT NULL CHECK (backoff_factor_percent >= 100),
    backoff_max_ms              bigint      NOT NULL CHECK (backoff_max_ms >= backoff_initial_ms),
    backoff_jitter_percent      integer     NOT NULL CHECK (backoff_jitter_percent BETWEEN 0 AND 100),
    visibility_timeout_ms       bigint      NOT NULL CHECK (visibility_timeout_ms > 0),
    max_deliveries              integer     NOT NULL CHECK (max_deliveries >= 1),
    state                       text        NOT NULL CHECK (state IN ('Active', 'Paused')),
    succeeded_retention_ms      bigint      NOT NULL CHECK (succeeded_retention_ms >= 0),
    dead_retention_ms           bigint      NOT NULL CHECK (dead_retention_ms > 0),
    on_dead_expiry              text        NOT NULL CHECK (on_dead_expiry IN ('Delete', 'Keep')),
    created_at                  timestamptz NOT NULL DEFAULT now(),
    updated_at                  timestamptz NOT NULL DEFAULT now(),
    CHECK ((owner_namespace IS NULL) = (owner_name IS NULL))
);

-- The CHECKs tie each state to the columns that it needs, so that no statement can leave a message half-moved.
-- There is no foreign key to queue: it would lock the queue's row at every enqueue.
-- headers is json, not jsonb: it keeps order, duplicates and the exact text.
CREATE TABLE {schema}.message (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id          bigint      NOT NULL,
    status            text        NOT NULL CHECK (status IN ('pending', 'processing', 'succeeded', 'dead')),
    payload           bytea       NOT NULL,
    headers           json        NOT NULL,
    max_retries       integer     NOT NULL CHECK (max_retries BETWEEN 1 AND 10),
    retry_count       integer     NOT NULL DEFAULT 0 CHECK (retry_count BETWEEN 0 AND max_retries),
    delivery_count    integer     NOT NULL DEFAULT 0 CHECK (delivery_count >= 0),
    replay_count      integer     NOT NULL DEFAULT 0 CHECK (replay_count >= 0),
    attempt_count     integer     NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
    ready_at          timestamptz NOT NULL,
    delayed           boolean     NOT NULL DEFAULT false,
    lease_token       uuid,
    lease_expires_at  timestamptz,
    claimed_at        timestamptz,
    claimed_by        text,
    claimed_version   text,
    failure_reason    text,
    failure_category  text,
    fingerprint       text,
    error_class       text,
    failed_by         text,
    failed_version    text,
    first_failure_at  timestamptz,
    last_failure_at   timestamptz,
    dead_at           timestamptz,
    succeeded_at      timestamptz,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    CHECK ((status = 'processing') = (lease_token IS NOT NULL)),
    CHECK ((status = 'processing') = (lease_expires_at IS NOT NULL)),
    CHECK ((status = 'dead') = (dead_at IS NOT NULL)),
    CHECK ((status = 'succeeded') = (succeeded_at IS NOT NULL)),
    CHECK (status <> 'dead' OR (failure_category IS NOT NULL AND fingerprint IS NOT NULL))
);

CREATE INDEX message_ready     ON {schema}.message (queue_id, ready_at, id) WHERE status = 'pending';
CREATE INDEX message_lease     ON {schema}.message (lease_expires_at) WHERE status = 'processing';
CREATE INDEX message_by_id     ON {schema}.message (queue_id, id);
CREATE INDEX message_by_status ON {schema}.message (queue_id, status, id);
CREATE INDEX message_dead      ON {schema}.message (queue_id, dead_at, id) WHERE status = 'dead';
CREATE INDEX message_group     ON {schema}.message (queue_id, fingerprint, dead_at, id) WHERE status = 'dead';
CREATE INDEX message_succeeded ON {schema}.message (queue_id, succeeded_at) WHERE status = 'succeeded';

-- One row per claim that ended without success. number orders the history; clocks do not.
CREATE TABLE {schema}.attempt (
    message_id  bigint      NOT NULL REFERENCES {schema}.message (id) ON DELETE CASCADE,
    number      integer     NOT NULL CHECK (number >= 1),
    started_at  timestamptz NOT NULL,
    ended_at    timestamptz NOT NULL,
    outcome     text        NOT NULL CHECK (outcome IN ('failed', 'expired', 'released')),
    instance    text        NOT NULL,
    version     text        NOT NULL,
    reason      text,
    category    text,
    fingerprint text,
    error_class text,
    stack_trace text,
    PRIMARY KEY (message_id, number)
);

-- One row per return from dead to pending.
CREATE TABLE {schema}.replay (
    message_id  bigint      NOT NULL REFERENCES {schema}.message (id) ON DELETE CASCADE,
    number      integer     NOT NULL CHECK (number >= 1),
    replayed_at timestamptz NOT NULL,
    source      text        NOT NULL,
    died_at     timestamptz NOT NULL,
    category    text        NOT NULL,
    fingerprint text        NOT NULL,
    PRIMARY KEY (message_id, number)
);

-- Depth without counting: every statement that moves messages appends what it changed, in its own transaction, so
-- depth + all deltas is exact in every snapshot. Deltas are folded into depth in the background.
CREATE TABLE {schema}.depth (
    queue_id   bigint PRIMARY KEY,
    pending    bigint NOT NULL,
    processing bigint NOT NULL,
    succeeded  bigint NOT NULL,
    dead       bigint NOT NULL
);

CREATE TABLE {schema}.depth_delta (
    queue_id   bigint NOT NULL,
    pending    bigint NOT NULL,
    processing bigint NOT NULL,
    succeeded  bigint NOT NULL,
    dead       bigint NOT NULL
);

CREATE FUNCTION {schema}.record_depth() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO {schema}.depth_delta
        SELECT n.queue_id,
               count(*) FILTER (WHERE n.status = 'pending'),
               count(*) FILTER (WHERE n.status = 'processing'),
               count(*) FILTER (WHERE n.status = 'succeeded'),
               count(*) FILTER (WHERE n.status = 'dead')
        FROM after_rows n GROUP BY n.queue_id;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO {schema}.depth_delta
        SELECT o.queue_id,
               -count(*) FILTER (WHERE o.status = 'pending'),
               -count(*) FILTER (WHERE o.status = 'processing'),
               -count(*) FILTER (WHERE o.status = 'succeeded'),
               -count(*) FILTER (WHERE o.status = 'dead')
        FROM before_rows o GROUP BY o.queue_id;
    ELSE
        INSERT INTO {schema}.depth_delta
        SELECT c.queue_id,
               coalesce(sum(c.n) FILTER (WHERE c.status = 'pending'), 0),
               coalesce(sum(c.n) FILTER (WHERE c.status = 'processing'), 0),
               coalesce(sum(c.n) FILTER (WHERE c.status = 'succeeded'), 0),
               coalesce(sum(c.n) FILTER (WHERE c.status = 'dead'), 0)
        FROM (
            SELECT o.queue_id, o.status, -1 AS n FROM before_rows o
            UNION ALL
            SELECT a.queue_id, a.status, 1 FROM after_rows a
        ) c
        GROUP BY c.queue_id
        HAVING count(DISTINCT c.status) > 1;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER message_inserted AFTER INSERT ON {schema}.message
    REFERENCING NEW TABLE AS after_rows
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.record_depth();
CREATE TRIGGER message_updated AFTER UPDATE ON {schema}.message
    REFERENCING OLD TABLE AS before_rows NEW TABLE AS after_rows
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.record_depth();
CREATE TRIGGER message_deleted AFTER DELETE ON {schema}.message
    REFERENCING OLD TABLE AS before_rows
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.record_depth();
