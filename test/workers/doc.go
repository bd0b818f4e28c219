// Package workers holds the tests that run the workers of the manual, in the languages that they are written in,
// against the real binary.
package workers
