// Package pgtest starts throw-away Postgres servers from the binaries installed on the machine.
//
// Tests call [Database] and get an empty database on a server that all tests of the process share. Programs and crash
// tests call [Start] and get a server of their own, which they may kill and restart.
//
// A server never outlives the process that started it, unless it was started with [Options.Detach]: a watchdog process
// holds the read end of a pipe and stops the server when the pipe breaks, so even SIGKILL leaves nothing behind.
package pgtest
