package main

import (
	"context"
	"fmt"
	"time"
)

const (
	replayFile = "hack/demo/manifests/replay.yaml"

	// executed is the manifest after the edit that approves its preview.
	applyExecuted = "sed 's/mode: Preview/mode: Execute/' " + replayFile + " | kubectl apply -f -"
)

// outcome is what a Replay's status says.
type outcome struct{ matched, replayed, skipped int }

// awaitReplay waits for the reason a Replay gives, and checks its counts.
func (s *story) awaitReplay(ctx context.Context, reason string, want outcome) error {
	for _, command := range []string{
		"kubectl wait replay/payment-outage --timeout=30s " +
			`--for=jsonpath='{.status.conditions[?(@.type=="Succeeded")].reason}'=` + reason,
		"kubectl get replays",
	} {
		if _, err := s.run(ctx, command); err != nil {
			return err
		}
	}

	counts, err := s.read(ctx, "kubectl get replay payment-outage -o jsonpath="+
		"'{.status.counts.matched} {.status.counts.replayed} {.status.counts.skipped}'")
	if err != nil {
		return err
	}

	var got outcome
	if _, err := fmt.Sscan(counts, &got.matched, &got.replayed, &got.skipped); err != nil {
		return fmt.Errorf("the Replay's counts are %q: %w", counts, err)
	}

	if got != want {
		return fmt.Errorf("the Replay's counts are %+v and have to be %+v", got, want)
	}

	s.checks++
	s.out.check("the Replay reports %d matched, %d replayed, %d skipped", got.matched, got.replayed, got.skipped)

	return nil
}

// preview asks what a Replay would do.
func (s *story) preview(ctx context.Context) error {
	s.out.heading("5. Replay, but look first")
	s.out.say("The payment provider is back. A Replay puts dead letters back to work. In mode Preview it only")
	s.out.say("counts them.")

	for _, command := range []string{"cat " + replayFile, "kubectl apply -f " + replayFile} {
		if _, err := s.run(ctx, command); err != nil {
			return err
		}
	}

	if err := s.awaitReplay(ctx, "PreviewReady", outcome{matched: external}); err != nil {
		return err
	}

	return s.expectDepth(ctx, depth{Succeeded: orders - dead, Dead: dead})
}

// execute runs the Replay.
func (s *story) execute(ctx context.Context) error {
	s.out.heading("6. The same Replay, for real")
	s.out.say("Only the mode changes. In Git, this one line is the change that a colleague reviews.")

	if _, err := s.run(ctx, applyExecuted); err != nil {
		return err
	}

	if err := s.awaitReplay(ctx, "Completed", outcome{matched: external, replayed: external}); err != nil {
		return err
	}

	return s.expectDepth(ctx, depth{Pending: external, Succeeded: orders - dead, Dead: dead - external})
}

// drain lets the second version of the worker handle what was replayed.
func (s *story) drain(ctx context.Context) error {
	s.out.heading("7. The worker gets them again, and succeeds")
	s.out.say("Replayed messages are ordinary messages: they start over with all their retries, and keep their")
	s.out.say("history.")

	began := time.Now()

	done, err := (&worker{api: s.api, version: "v2", handle: afterOutage}).work(ctx, external)
	if err != nil {
		return err
	}

	s.out.say("\n  worker v2: %d attempts in %s", done.finished()+done.retried, round(time.Since(began)))

	if err := s.expect("replayed orders that succeeded", done.succeeded, external); err != nil {
		return err
	}

	return s.expectDepth(ctx, s.drained())
}

// drained is the queue after the Replay's messages have succeeded.
func (s *story) drained() depth {
	return depth{Succeeded: orders - dead + external, Dead: dead - external}
}

// repeat applies the Replay once more.
func (s *story) repeat(ctx context.Context) error {
	s.out.heading("8. Applying it again moves nothing")
	s.out.say("A run is recorded in the database under its Replay's name and runID. A Replay that is deleted and")
	s.out.say("applied again, by a tool or by mistake, finds that it took place, and shows the recorded outcome.")

	for _, command := range []string{"kubectl delete replay payment-outage", applyExecuted} {
		if _, err := s.run(ctx, command); err != nil {
			return err
		}
	}

	if err := s.awaitReplay(ctx, "AlreadyExecuted", outcome{matched: external, replayed: external}); err != nil {
		return err
	}

	if err := s.expectDepth(ctx, s.drained()); err != nil {
		return err
	}

	var batch claimed
	if err := s.api.post(ctx, "/queues/orders/claim", map[string]any{"max": claimLimit}, &batch); err != nil {
		return err
	}

	return s.expect("messages that a worker can claim now", len(batch.Messages), 0)
}

// finish looks at the queue a last time.
func (s *story) finish(ctx context.Context) error {
	s.out.heading("9. What is left")
	s.out.say("The letters that were not replayed wait for somebody who knows what to do with them.")

	if err := s.showQueue(ctx, s.drained().Dead); err != nil {
		return err
	}

	left := map[string]int{}

	var page letters
	if err := s.api.get(ctx, "/queues/orders/dead-letters?limit=100", &page); err != nil {
		return err
	}

	for _, l := range page.DeadLetters {
		left[l.Envelope.Category]++
	}

	for category, want := range map[string]int{"VALIDATION": validation, "TIMEOUT": timeout, "EXTERNAL": 0} {
		if left[category] != want {
			return fmt.Errorf("%d dead letters of category %s are left, and there have to be %d", left[category], category, want)
		}
	}

	s.checks++
	s.out.check("dead letters left: %d VALIDATION, %d TIMEOUT, 0 EXTERNAL", validation, timeout)
	s.out.say("")
	s.out.say("All %d checks of this demo hold.", s.checks)

	return nil
}
