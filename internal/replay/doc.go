// Package replay carries out replay runs: it decides how many letters to move next and how long to wait before that.
//
// The store owns everything that must survive: the frozen selection, the counters and the state of a run are rows, and
// a batch changes them together with the messages. What an Engine keeps in memory, the pace of each run, may be lost at
// any moment and makes no difference to what is moved.
package replay
