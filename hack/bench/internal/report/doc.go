// Package report tells what was measured: tables to read, JSON for machines, and charts.
package report
