package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// lastCall is how long a claim that is under way at a shutdown may still take. To cut it off at once might lose what
	// is just being handed out, which would then count as failed when its lease ends; busy queues answer within this time.
	lastCall = 500 * time.Millisecond
	// idlePause is the pause after a claim that got nothing although it had not waited: the server shuts down, for one.
	idlePause = 500 * time.Millisecond
	idleAfter = time.Second
	// longestClaimWait bounds the wait between claims that fail.
	longestClaimWait = 15 * time.Second
)

// fetch claims messages until ctx ends, or until a claim shows that none can succeed, which it returns. It closes work.
func (r *run) fetch(ctx, base context.Context) error {
	defer close(r.work)
	for failed := 0; ; {
		most := r.gate.admit(ctx, r.room.wait(ctx), len(r.work))
		if most == 0 {
			return nil
		}
		began := r.c.now()
		got, err := r.claim(ctx, base, min(most, maxBatch))
		r.room.take(len(got.Messages))
		for _, m := range got.Messages {
			r.work <- newHold(base, r, m)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case isHopeless(err):
			return fmt.Errorf("worker: claim from %q: %w", r.Queue, err)
		case err != nil:
			failed++
			r.log.WarnContext(ctx, "messages cannot be claimed", "failures", failed, "error", err)
			_ = r.c.pause(ctx, r.claimWait(err, failed))
		default:
			failed = 0
			if len(got.Messages) == 0 && r.c.now().Sub(began) < idleAfter {
				_ = r.c.pause(ctx, idlePause+time.Duration(r.c.random()*float64(idlePause)))
			}
		}
	}
}

// claim claims up to most messages. When ctx ends, it waits a moment for those that are on their way.
func (r *run) claim(ctx, base context.Context, most int) (claimed, error) {
	base, cancel := context.WithCancel(base)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastCall, cancel) })()
	return r.c.claim(base, r.Queue, ClaimOptions{
		Max: most, Wait: r.PollWait, VisibilityTimeout: r.VisibilityTimeout,
	})
}

// claimWait is how long to wait after as many failures in a row.
func (r *run) claimWait(err error, failed int) time.Duration {
	t := try{err: err}
	if problem := new(Error); errors.As(err, &problem) {
		t = try{problem: problem}
	}
	wait, _ := t.wait(failed, r.c.random())
	return min(wait, longestClaimWait)
}

// isHopeless recognises answers that no waiting changes: the queue's name is impossible, or the request is.
func isHopeless(err error) bool {
	problem := new(Error)
	if !errors.As(err, &problem) || problem.Type == "" {
		return false
	}
	switch problem.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	default:
		return false
	}
}
