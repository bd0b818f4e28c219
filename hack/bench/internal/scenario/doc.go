// Package scenario has the measurements P1 to P8, one a file, each of the product and of its peers in turn.
package scenario
