-- What was enqueued under a key, so that it is accepted once. Keys are forgotten after a day; see EnqueueOnce.
CREATE TABLE {schema}.enqueue_key (
    queue_id    bigint      NOT NULL,
    key         text        NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
    digest      bytea       NOT NULL,
    message_ids bigint[]    NOT NULL,
    accepted_at timestamptz NOT NULL,
    PRIMARY KEY (queue_id, key)
);
CREATE INDEX enqueue_key_age ON {schema}.enqueue_key (accepted_at);
