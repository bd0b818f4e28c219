// Package measure reads what a run costs: latencies, CPU time of processes, and what Postgres wrote and left behind.
package measure
