// Package message holds the lifecycle rules of Deadletter: what a message is, how it moves between states, how long it
// backs off, when it dies, and how a failure is cleaned, classified and grouped.
//
// Everything here is pure: no I/O, no clock, no randomness of its own. Times are handed in by the caller and come from
// the database, so that every replica of every process agrees on them.
package message
