// Package system puts every queue that is measured behind one interface, each at the best setting that keeps its
// promises: a message is accepted when it is durable, and acknowledged when it cannot come again.
package system
