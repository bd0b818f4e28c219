-- The log is where a message lives while nothing out of the ordinary befalls it: it is inserted, claimed by a range and
-- closed by a row, and nothing of it is ever updated or deleted, so that no snapshot held open elsewhere slows it down.
-- A message that fails, is delayed, given back or extended moves to the table message, whose row then tells its state.
--
-- The log is written in segments. A segment has one of a fixed number of sets of tables and gives it back, truncated,
-- when every message in it is closed and nothing keeps it; no statement of the data plane makes or drops a table.
CREATE TABLE {schema}.segment (
    no        bigint      PRIMARY KEY,
    slot      integer     NOT NULL UNIQUE CHECK (slot BETWEEN 0 AND 7),
    first_id  bigint      NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT now(),
    -- When it was seen that everything in it is closed, which is for good: nothing is added to it any more.
    closed_at timestamptz
);
INSERT INTO {schema}.segment (no, slot, first_id) VALUES (1, 0, 1);

DO $$
BEGIN
    FOR slot IN 0..7 LOOP
        -- headers is json, not jsonb: it keeps order, duplicates and the exact text.
        EXECUTE format('CREATE TABLE {schema}.log_%1$s (
            queue_id    bigint      NOT NULL,
            id          bigint      NOT NULL,
            created_at  timestamptz NOT NULL,
            max_retries integer     NOT NULL,
            headers     json        NOT NULL,
            payload     bytea       NOT NULL,
            PRIMARY KEY (queue_id, id)
        ) WITH (autovacuum_vacuum_insert_threshold = -1)', slot);
        -- A claim is a range of a queue''s ids, first to last, of n messages. The last range ends where the next begins.
        EXECUTE format('CREATE TABLE {schema}.claim_%1$s (
            queue_id   bigint      NOT NULL,
            first      bigint      NOT NULL,
            last       bigint      NOT NULL,
            n          integer     NOT NULL,
            nonce      bigint      NOT NULL,
            claimed_at timestamptz NOT NULL,
            expires_at timestamptz NOT NULL,
            instance   text        NOT NULL,
            version    text        NOT NULL,
            PRIMARY KEY (queue_id, first)
        ) WITH (autovacuum_vacuum_insert_threshold = -1)', slot);
        EXECUTE format('CREATE INDEX claim_%1$s_expiry ON {schema}.claim_%1$s (expires_at)', slot);
        -- Who closes a message first has it: succeeded, or moved to the table message.
        EXECUTE format('CREATE TABLE {schema}.closed_%1$s (
            queue_id  bigint      NOT NULL,
            id        bigint      NOT NULL,
            moved     boolean     NOT NULL,
            closed_at timestamptz NOT NULL,
            PRIMARY KEY (queue_id, id)
        ) WITH (autovacuum_vacuum_insert_threshold = -1)', slot);
        EXECUTE format('CREATE TABLE {schema}.delta_%1$s (LIKE {schema}.depth_delta INCLUDING ALL)', slot);
    END LOOP;
END
$$;
