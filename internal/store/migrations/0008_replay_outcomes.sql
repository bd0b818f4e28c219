-- What a run does beyond moving letters is its plan, which it keeps to wherever it is taken further; and what became of
-- the messages that it put back to work.
ALTER TABLE {schema}.replay_run
    DROP CONSTRAINT replay_run_state_check,
    ADD CHECK (state IN ('Running', 'Completed', 'Cancelled', 'Aborted')),
    ADD COLUMN plan             jsonb   NOT NULL DEFAULT '{}',
    ADD COLUMN canary_messages  integer NOT NULL DEFAULT 0 CHECK (canary_messages >= 0),
    ADD COLUMN canary_sent_at   timestamptz,
    ADD COLUMN canary_passed_at timestamptz,
    ADD COLUMN abort_reason     text,
    ADD COLUMN failed           bigint  NOT NULL DEFAULT 0 CHECK (failed >= 0),
    ADD COLUMN succeeded        bigint  NOT NULL DEFAULT 0 CHECK (succeeded >= 0),
    ADD COLUMN redied           bigint  NOT NULL DEFAULT 0 CHECK (redied >= 0),
    ADD COLUMN removed          bigint  NOT NULL DEFAULT 0 CHECK (removed >= 0),
    ADD COLUMN unmatchable      bigint  NOT NULL DEFAULT 0 CHECK (unmatchable >= 0),
    ADD COLUMN fingerprints     jsonb   NOT NULL DEFAULT '[]',
    ADD COLUMN versions         jsonb   NOT NULL DEFAULT '[]',
    ADD CHECK (state <> 'Aborted' OR abort_reason IS NOT NULL),
    ADD CHECK (succeeded + redied + removed <= replayed);

ALTER TABLE {schema}.replay_item
    DROP CONSTRAINT replay_item_state_check,
    ADD CHECK (state IN ('selected', 'replayed', 'skipped', 'failed', 'cancelled')),
    -- Why a failed one stayed dead. It never quotes the message.
    ADD COLUMN error      text,
    ADD COLUMN outcome    text CHECK (outcome IN ('succeeded', 'redied', 'removed')),
    ADD COLUMN outcome_at timestamptz,
    ADD CHECK (state <> 'failed' OR error IS NOT NULL),
    ADD CHECK (outcome IS NULL OR state = 'replayed');

-- run_id and run_position name the item of the run that last put the message back to work.
ALTER TABLE {schema}.message
    ADD COLUMN run_id         bigint,
    ADD COLUMN run_position   bigint,
    ADD COLUMN revision_count integer NOT NULL DEFAULT 0 CHECK (revision_count >= 0),
    ADD CHECK ((run_id IS NULL) = (run_position IS NULL));

-- The queue that a replay took the message from, if it put it into another.
ALTER TABLE {schema}.replay ADD COLUMN moved_from text;

-- A payload as it was before an edit. The first one is what the producer sent.
CREATE TABLE {schema}.message_revision (
    message_id bigint      NOT NULL REFERENCES {schema}.message (id) ON DELETE CASCADE,
    number     integer     NOT NULL CHECK (number >= 1),
    edited_at  timestamptz NOT NULL,
    source     text        NOT NULL,
    payload    bytea       NOT NULL,
    PRIMARY KEY (message_id, number)
);

-- What has become of replayed messages, appended in the transaction in which it came to be and taken out when a run's
-- counters are brought up to date.
CREATE TABLE {schema}.replay_outcome (
    run_id   bigint      NOT NULL,
    position bigint      NOT NULL,
    outcome  text        NOT NULL,
    at       timestamptz NOT NULL
);
CREATE INDEX replay_outcome_run ON {schema}.replay_outcome (run_id);

CREATE FUNCTION {schema}.follow_replays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO {schema}.replay_outcome
        SELECT o.run_id, o.run_position, 'removed', now() FROM before_rows o
        WHERE o.run_id IS NOT NULL AND o.status IN ('pending', 'processing');
    ELSIF EXISTS (SELECT FROM after_rows n WHERE n.run_id IS NOT NULL) THEN
        INSERT INTO {schema}.replay_outcome
        SELECT n.run_id, n.run_position, CASE n.status WHEN 'dead' THEN 'redied' ELSE 'succeeded' END, now()
        FROM before_rows o JOIN after_rows n ON n.id = o.id
        WHERE n.run_id IS NOT NULL AND o.status IN ('pending', 'processing') AND n.status IN ('succeeded', 'dead');
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER message_updated_in_run AFTER UPDATE ON {schema}.message
    REFERENCING OLD TABLE AS before_rows NEW TABLE AS after_rows
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.follow_replays();
CREATE TRIGGER message_deleted_in_run AFTER DELETE ON {schema}.message
    REFERENCING OLD TABLE AS before_rows
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.follow_replays();

-- As before, but for a message that goes to another queue, whose counters change even if it alone moves.
CREATE OR REPLACE FUNCTION {schema}.record_depth() RETURNS trigger LANGUAGE plpgsql AS $$
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
        SELECT * FROM (
            SELECT c.queue_id,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 'pending'), 0) AS pending,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 'processing'), 0) AS processing,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 'succeeded'), 0) AS succeeded,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 'dead'), 0) AS dead
            FROM (
                SELECT o.queue_id, o.status, -1 AS n FROM before_rows o
                UNION ALL
                SELECT a.queue_id, a.status, 1 FROM after_rows a
            ) c
            GROUP BY c.queue_id
        ) moved
        WHERE (pending, processing, succeeded, dead) IS DISTINCT FROM (0, 0, 0, 0);
    END IF;
    RETURN NULL;
END
$$;
