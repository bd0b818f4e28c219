// Package coalesce runs many concurrent calls as few, the way databases commit in groups: while work for a key is under
// way, calls for that key gather, and then go together. There are no timers: a call that comes alone goes at once, and
// batches grow by themselves as load does.
package coalesce
