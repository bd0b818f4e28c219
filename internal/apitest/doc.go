// Package apitest runs the real binary on a real Postgres, for tests of what talks to the queue API from outside: the
// Go client, and the workers of the manual. The processes can be killed, drained and started again.
package apitest
