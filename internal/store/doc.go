// Package store keeps queues, messages, dead letters and replay runs in Postgres. All SQL of the product is here: every
// statement is parameterised, schema-qualified and bounded in time, and runs under READ COMMITTED.
//
// The clock of every rule is the database's. Lifecycle decisions are made by package message; this package applies them
// in one transaction together with the history that they leave.
package store
