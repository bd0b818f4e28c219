// Command demo shows what the product does, on a real Kubernetes API that it starts itself, with a real Postgres
// that the operator runs.
//
// Everything it prints after a dollar sign is run as printed, and what follows is its output. The numbers are checked
// as the story goes; the first one that is not what it has to be ends the demo with a message and an exit code.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const usage = `usage:
  demo         tell the whole story, then stop everything that was started for it
  demo up      start the same, leave it running, and say how to use it
  demo down    stop what 'demo up' has started
`

func main() {
	// A closed pipe at the other end of the output must not end the demo before it has cleaned up.
	ctx, stop := signal.NotifyContext(
		context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	// A second signal ends the demo at once.
	context.AfterFunc(ctx, stop)

	err := run(ctx, os.Args[1:])
	interrupted := ctx.Err() != nil

	stop()

	switch {
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case err != nil && interrupted:
		fmt.Fprintln(os.Stderr, "\nThe demo was interrupted.")
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "\nThe demo failed: %v\n", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("wrong arguments")

func run(ctx context.Context, args []string) error {
	root, err := repository()
	if err != nil {
		return err
	}

	switch strings.Join(args, " ") {
	case "":
		return tell(ctx, root, newPrinter(os.Stdout))
	case "up":
		return up(ctx, root, newPrinter(os.Stdout))
	case "down":
		return down(ctx, root, newPrinter(os.Stdout))
	case reaperCommand:
		return reap(root)
	default:
		return errUsage
	}
}

// tell starts everything, tells the story, and stops everything.
func tell(ctx context.Context, root string, out *printer) (err error) {
	began := time.Now()

	place, release, err := open(ctx, root, "run", out)
	if err != nil {
		return err
	}
	defer release()

	// What a demo that was killed has left behind.
	if err := place.stop(); err != nil {
		return err
	}

	reaper, err := startReaper()
	if err != nil {
		return err
	}

	defer func() {
		started := time.Now()
		err = errors.Join(err, place.stop())

		release()

		err = errors.Join(err, reaper.end())

		if err == nil {
			out.say("")
			out.say("Everything is stopped (%s). The whole demo took %s.", round(time.Since(started)), round(time.Since(began)))
		}
	}()

	network, err := freeNetwork(shownNetworks, rand.IntN(256))
	if err != nil {
		return err
	}

	env := &environment{place: place, network: network, out: out, stay: "for this demo only"}
	if err := env.start(ctx); err != nil {
		return err
	}

	s := &story{env: env, out: out}
	if err := s.tell(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, place.tails())
	}

	return nil
}

// up starts everything and leaves it running, with dead letters to look at.
func up(ctx context.Context, root string, out *printer) (err error) {
	place, release, err := open(ctx, root, "up", out)
	if err != nil {
		return err
	}
	defer release()

	current, err := place.load()
	if err != nil {
		return err
	}

	if current.complete() && place.answers(ctx, current) {
		out.say("It is running already.")
		out.explain(place, current)

		return nil
	}

	if err := current.replaceable(); err != nil {
		return err
	}

	if err := place.stop(); err != nil {
		return err
	}

	network, err := freeNetwork(keptNetworks, 0)
	if err != nil {
		return err
	}

	env := &environment{place: place, network: network, out: out, stay: "which stays until make down"}
	defer func() {
		if err != nil {
			err = errors.Join(err, place.stop())
		}
	}()

	if err := env.start(ctx); err != nil {
		return err
	}

	s := &story{env: env, out: out}
	if err := s.prepare(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, place.tails())
	}

	if err := place.change(func(s *state) { s.Ready = true }); err != nil {
		return err
	}

	if current, err = place.load(); err != nil {
		return err
	}

	out.explain(place, current)

	return nil
}

func down(ctx context.Context, root string, out *printer) error {
	place, release, err := open(ctx, root, "up", out)
	if err != nil {
		return err
	}
	defer release()

	current, err := place.load()
	if err != nil {
		return err
	}

	if !current.exists() {
		out.say("Nothing is running.")

		return nil
	}

	if err := place.stop(); err != nil {
		return err
	}

	out.say("Everything is stopped.")

	return nil
}
