// Package load puts work on a queue and watches every message of it until it is acknowledged.
package load
