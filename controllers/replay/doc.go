// Package replay reconciles Replays: it starts the run that a Replay asks for, once, steps it to its end, and mirrors
// what the database records of it into status.
//
// The run is a row, found by queue, namespace, name and runID and never by the object's UID. Whatever happens to the
// object, to this process or to the cluster, the row says what was moved, so that nothing is moved twice.
package replay
