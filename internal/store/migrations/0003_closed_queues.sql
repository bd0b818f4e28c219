-- A queue that is being deleted takes no messages until then. It is a time, so that a queue whose deletion is given up,
-- or whose operator is gone, opens again by itself.
ALTER TABLE {schema}.queue ADD COLUMN closed_until timestamptz;
