// Package docs holds the tests that keep the documentation true: links lead somewhere, examples are accepted by a real
// API server, and the manual of a kind speaks of every field, column and reason that the kind has, and of no other.
package docs
