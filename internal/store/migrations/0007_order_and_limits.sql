-- What a message may ask for beside the order of its enqueue, and a queue's limits. The log knows only the queue's time
-- to live; every other wish puts a message into the table message.
ALTER TABLE {schema}.queue
    ADD COLUMN message_ttl_ms bigint NOT NULL DEFAULT 0 CHECK (message_ttl_ms >= 0),
    ADD COLUMN max_length     bigint NOT NULL DEFAULT 0 CHECK (max_length >= 0),
    ADD COLUMN overflow       text   NOT NULL DEFAULT 'Reject' CHECK (overflow IN ('Reject', 'DeadLetter')),
    -- Until when messages may expire whose time to live the queue does not have any more.
    ADD COLUMN expiring_until timestamptz;
CREATE INDEX queue_expiring ON {schema}.queue (id) WHERE message_ttl_ms > 0 OR expiring_until IS NOT NULL;

-- blocked: an unfinished message of the same group key comes first. ttl_ms is what the message asked for itself.
ALTER TABLE {schema}.message
    ADD COLUMN priority   smallint    NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 3),
    ADD COLUMN group_key  text        CHECK (octet_length(group_key) BETWEEN 1 AND 255),
    ADD COLUMN blocked    boolean     NOT NULL DEFAULT false,
    ADD COLUMN ttl_ms     bigint      CHECK (ttl_ms > 0),
    ADD COLUMN expires_at timestamptz,
    ADD CHECK (NOT blocked OR group_key IS NOT NULL AND status = 'pending');

DO $$
BEGIN
    FOR slot IN 0..7 LOOP
        EXECUTE format('ALTER TABLE {schema}.log_%1$s ADD COLUMN expires_at timestamptz', slot);
    END LOOP;
END
$$;

DROP INDEX {schema}.message_ready;
CREATE INDEX message_ready  ON {schema}.message (queue_id, priority, ready_at, id)
    WHERE status = 'pending' AND NOT blocked;
CREATE INDEX message_expiry ON {schema}.message (expires_at) WHERE status = 'pending' AND expires_at IS NOT NULL;
-- The order within a group. The message that is not blocked comes first, whatever its id.
CREATE INDEX message_key    ON {schema}.message (queue_id, group_key, blocked, id)
    WHERE group_key IS NOT NULL AND status IN ('pending', 'processing');

-- Which of the locks on a queue's groups a group belongs to. There is a fixed number of them, so that no batch takes more
-- locks than the server has room for.
CREATE FUNCTION {schema}.group_lock(queue_id bigint, group_key text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended('{schema}:group:' || queue_id || ':' || (hashtextextended(group_key, 0) & 63), 0)
$$;

-- Of the unfinished messages of a group exactly one is not blocked. Whatever makes a message unfinished writes it as
-- blocked, and this, which runs after every statement, lets go the first of each group of which none is free. It looks
-- under locks on the groups, taken in one order, and with a snapshot of its own: so it is right whatever else is under
-- way, and running it once too often does no harm. Who locks a blocked message must have its group's lock before that.
CREATE FUNCTION {schema}.advance_groups() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    queues bigint[];
    keys   text[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT array_agg(n.queue_id), array_agg(n.group_key) INTO queues, keys FROM after_rows n WHERE n.blocked;
    ELSIF TG_OP = 'DELETE' THEN
        SELECT array_agg(o.queue_id), array_agg(o.group_key) INTO queues, keys FROM before_rows o
        WHERE o.group_key IS NOT NULL AND o.status IN ('pending', 'processing') AND NOT o.blocked;
    ELSIF EXISTS (SELECT FROM after_rows n WHERE n.group_key IS NOT NULL) THEN
        SELECT array_agg(n.queue_id), array_agg(n.group_key) INTO queues, keys
        FROM before_rows o JOIN after_rows n ON n.id = o.id
        WHERE n.group_key IS NOT NULL
            AND (o.status IN ('pending', 'processing')) <> (n.status IN ('pending', 'processing'));
    END IF;
    IF queues IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(k.lock) FROM (
        SELECT DISTINCT {schema}.group_lock(g.queue_id, g.group_key) AS lock
        FROM unnest(queues, keys) AS g (queue_id, group_key) ORDER BY 1
    ) k;
    UPDATE {schema}.message m SET blocked = false
    FROM (SELECT DISTINCT * FROM unnest(queues, keys) AS g (queue_id, group_key)) g
    WHERE m.blocked AND m.id = (
        SELECT f.id FROM {schema}.message f
        WHERE f.queue_id = g.queue_id AND f.group_key = g.group_key AND f.status IN ('pending', 'processing')
        ORDER BY f.blocked, f.id LIMIT 1
    );
    RETURN NULL;
END
$$;

CREATE TRIGGER message_inserted_in_group AFTER INSERT ON {schema}.message
    REFERENCING NEW TABLE AS after_rows
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.advance_groups();
CREATE TRIGGER message_updated_in_group AFTER UPDATE ON {schema}.message
    REFERENCING OLD TABLE AS before_rows NEW TABLE AS after_rows
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.advance_groups();
CREATE TRIGGER message_deleted_in_group AFTER DELETE ON {schema}.message
    REFERENCING OLD TABLE AS before_rows
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.advance_groups();
