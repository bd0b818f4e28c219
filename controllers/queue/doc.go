// Package queue reconciles Queues: it finds the Broker that serves a Queue, keeps the Queue's settings in that Broker's
// database, where the queue API reads them, and brings the depth of every queue back into status.
package queue
