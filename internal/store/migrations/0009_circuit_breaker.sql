-- A queue's circuit breaker. It is part of the queue's row, which every claim reads anyway, and changes rarely. A window
-- of 0 is no breaker.
ALTER TABLE {schema}.queue
    ADD COLUMN breaker_window_ms       bigint  NOT NULL DEFAULT 0 CHECK (breaker_window_ms >= 0),
    ADD COLUMN breaker_failure_percent integer NOT NULL DEFAULT 50 CHECK (breaker_failure_percent BETWEEN 1 AND 100),
    ADD COLUMN breaker_min_sample      integer NOT NULL DEFAULT 20 CHECK (breaker_min_sample >= 1),
    ADD COLUMN breaker_open_ms         bigint  NOT NULL DEFAULT 30000 CHECK (breaker_open_ms > 0),
    ADD COLUMN breaker_probes          integer NOT NULL DEFAULT 5 CHECK (breaker_probes >= 1),
    ADD COLUMN breaker                 text    NOT NULL DEFAULT 'Closed' CHECK (breaker IN ('Closed', 'Open', 'HalfOpen')),
    ADD COLUMN breaker_changed_at      timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN breaker_open_until      timestamptz,
    -- How many messages may still be claimed while it is half open.
    ADD COLUMN breaker_probes_left     integer NOT NULL DEFAULT 0 CHECK (breaker_probes_left >= 0),
    ADD CHECK ((breaker = 'Open') = (breaker_open_until IS NOT NULL)),
    ADD CHECK (breaker = 'Closed' OR breaker_window_ms > 0);
CREATE INDEX queue_breaker ON {schema}.queue (id) WHERE breaker_window_ms > 0;

-- How messages of a queue with a breaker ended, as each process counts them, about once a second.
CREATE TABLE {schema}.breaker_sample (
    queue_id  bigint      NOT NULL,
    at        timestamptz NOT NULL,
    succeeded bigint      NOT NULL,
    failed    bigint      NOT NULL
);
CREATE INDEX breaker_sample_queue ON {schema}.breaker_sample (queue_id, at);
