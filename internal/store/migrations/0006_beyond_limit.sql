-- How many letters met a run's selector and were left dead because the run may select only so many. They are part of
-- matched; what older runs left out is not known.
ALTER TABLE {schema}.replay_run ADD COLUMN beyond_limit bigint NOT NULL DEFAULT 0 CHECK (beyond_limit >= 0);
