// Package queueapi is the data plane of Deadletter: the HTTP API through which producers enqueue, workers claim and
// settle, and operators read and replay dead letters.
//
// It holds no rules of its own about messages: package message decides, package store applies, and this package checks
// what comes in, says no in RFC 9457 problems, and writes what goes out. It never runs DDL and needs neither the
// operator nor the Kubernetes API to move messages.
package queueapi
