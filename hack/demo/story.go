package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"text/tabwriter"
	"time"
)

// story is what the demo tells.
type story struct {
	env *environment
	out *printer
	// api is set once the queue API serves.
	api    *api
	checks int
}

// tell tells the whole story.
func (s *story) tell(ctx context.Context) error {
	return inOrder(ctx, s.declare, s.send, s.fail, s.look, s.preview, s.execute, s.drain, s.repeat, s.finish)
}

// prepare is the story up to where the reader may go on.
func (s *story) prepare(ctx context.Context) error {
	return inOrder(ctx, s.declare, s.send, s.fail, s.look)
}

func inOrder(ctx context.Context, chapters ...func(context.Context) error) error {
	for _, chapter := range chapters {
		if err := chapter(ctx); err != nil {
			return err
		}
	}

	return nil
}

// expect checks a number of the story.
func (s *story) expect(what string, got, want any) error {
	if got != want {
		return fmt.Errorf("%s: it is %v and has to be %v", what, got, want)
	}

	s.checks++
	s.out.check("%s: %v", what, got)

	return nil
}

func (s *story) expectDepth(ctx context.Context, want depth) error {
	var found queue
	if err := s.api.get(ctx, "/queues/orders", &found); err != nil {
		return err
	}

	for _, number := range []struct {
		what      string
		got, want int
	}{
		{"pending", found.Depth.Pending, want.Pending},
		{"processing", found.Depth.Processing, want.Processing},
		{"succeeded", found.Depth.Succeeded, want.Succeeded},
		{"dead", found.Depth.Dead, want.Dead},
	} {
		if number.got != number.want {
			return fmt.Errorf("the queue API counts %d messages %s, and there have to be %d",
				number.got, number.what, number.want)
		}
	}

	s.checks++
	s.out.check("the queue API counts %d pending, %d processing, %d succeeded, %d dead",
		want.Pending, want.Processing, want.Succeeded, want.Dead)

	return nil
}

// declare applies the Broker and the Queue.
func (s *story) declare(ctx context.Context) error {
	s.out.heading("1. A queue is a few lines of YAML")
	s.out.say("A Broker is a queue API on a Postgres database. This one comes with every installation: it has a Postgres")
	s.out.say("of its own, and serves the Queues of all namespaces that name no other.")

	for _, command := range []string{
		"cat config/broker/broker.yaml hack/demo/manifests/queue.yaml",
		"kubectl apply -k config/broker",
		"kubectl apply -f hack/demo/manifests/queue.yaml",
		"kubectl wait --for=condition=Ready --timeout=60s broker/default -n " + systemNamespace,
		"kubectl wait --for=condition=Ready --timeout=60s queue/orders",
		"kubectl wait --for=condition=Ready --timeout=60s pods --all -n " + systemNamespace,
		"kubectl get brokers,statefulsets,deployments,pods -n " + systemNamespace,
	} {
		if _, err := s.run(ctx, command); err != nil {
			return err
		}
	}

	s.out.say("")
	s.out.say("The operator has started a Postgres, migrated its schema and made a Deployment, whose pod serves the")
	s.out.say("queue API.")

	return s.findAPI(ctx)
}

// findAPI learns the address of the queue API's pod: outside a cluster, the Service has none.
func (s *story) findAPI(ctx context.Context) error {
	address, err := s.read(ctx, "kubectl get pods -n "+systemNamespace+" -l app.kubernetes.io/component=api "+
		"-o jsonpath='{.items[0].status.podIP}:{.items[0].spec.containers[0].ports[0].containerPort}'")
	if err != nil {
		return err
	}

	s.api = newAPI("http://" + address)

	return nil
}

// send enqueues the orders.
func (s *story) send(ctx context.Context) error {
	s.out.heading("2. Workers use plain HTTP")
	s.out.say("This is the pod's own address; inside a cluster it would be the endpoint shown above.")

	first := order{Number: 1, SKU: sku(1)}

	payload, err := json.Marshal(first)
	if err != nil {
		return err
	}

	body, err := json.Marshal(map[string]string{"payload": string(payload)})
	if err != nil {
		return err
	}

	s.out.command("API=" + s.api.base)

	if err := s.sendFirst(ctx, string(body)); err != nil {
		return err
	}

	batch := make([]map[string]string, 0, orders-1)

	for number := 2; number <= orders; number++ {
		payload, err := json.Marshal(order{Number: number, SKU: sku(number)})
		if err != nil {
			return err
		}

		batch = append(batch, map[string]string{"payload": string(payload)})
	}

	var answer claimed
	if err := s.api.post(ctx, "/queues/orders/messages", map[string]any{"messages": batch}, &answer); err != nil {
		return err
	}

	s.out.say("")
	s.out.say("The other %d orders follow in one request.", len(answer.Messages))

	return s.expectDepth(ctx, depth{Pending: orders})
}

func sku(number int) string { return fmt.Sprintf("SKU-%03d", number*37%1000) }

// sendFirst sends one message with curl, or without it where there is none.
func (s *story) sendFirst(ctx context.Context, body string) error {
	if _, err := exec.LookPath("curl"); err != nil {
		var sent message

		s.out.say("\n  (curl is not installed; this is sent without it)\n  POST $API/queues/orders/messages\n  %s", body)

		return s.api.post(ctx, "/queues/orders/messages", json.RawMessage(body), &sent)
	}

	output, err := s.run(ctx, "curl -sS $API/queues/orders/messages --json '"+body+"'")
	if err != nil {
		return err
	}

	var sent message
	if err := json.Unmarshal([]byte(output), &sent); err != nil || sent.Status != "pending" {
		return fmt.Errorf("the message was not accepted: %s", output)
	}

	return nil
}

// fail lets the first version of the worker loose on the orders.
func (s *story) fail(ctx context.Context) error {
	s.out.heading("3. Some messages fail, and none is lost")
	s.out.say("A worker claims messages and reports an outcome for each. The payment provider is down, so some")
	s.out.say("orders fail until their retries are used up; others are broken for good, and the worker says so.")
	s.out.say(`
  POST $API/queues/orders/claim                    {"max": 10, "wait_seconds": 5}
  POST $API/queues/orders/messages/{id}/succeed    {"lease_token": "..."}
  POST $API/queues/orders/messages/{id}/fail       {"lease_token": "...", "error": "...", "category": "EXTERNAL"}`)

	began := time.Now()

	done, err := (&worker{api: s.api, version: "v1", handle: duringOutage}).work(ctx, orders)
	if err != nil {
		return err
	}

	s.out.say("\n  worker v1: %d attempts in %s; waiting a second before each retry",
		done.finished()+done.retried, round(time.Since(began)))

	for _, number := range []struct {
		what      string
		got, want int
	}{
		{"orders that succeeded", done.succeeded, orders - dead},
		{"failures that were retried", done.retried, flaky + timeout + external},
		{"dead at once, not retryable (VALIDATION)", done.dead["VALIDATION"], validation},
		{"dead after their retries (TIMEOUT)", done.dead["TIMEOUT"], timeout},
		{"dead after their retries (EXTERNAL)", done.dead["EXTERNAL"], external},
	} {
		if err := s.expect(number.what, number.got, number.want); err != nil {
			return err
		}
	}

	return s.expectDepth(ctx, depth{Succeeded: orders - dead, Dead: dead})
}

// look shows the dead letters from both sides.
func (s *story) look(ctx context.Context) error {
	s.out.heading("4. What is dead, and why")
	s.out.say("The operator keeps the depth in the Queue's status.")

	if err := s.showQueue(ctx, dead); err != nil {
		return err
	}

	s.out.say("\nThe queue API has every dead letter with its payload, its reason and its attempts, and groups them")
	s.out.say("by fingerprint: what is left of a reason without numbers, ids and addresses.")

	if err := s.showGroups(ctx); err != nil {
		return err
	}

	return s.showLetter(ctx)
}

func (s *story) showGroups(ctx context.Context) error {
	const path = "/queues/orders/dead-letters/groups"

	var found groups
	if err := s.api.get(ctx, path, &found); err != nil {
		return err
	}

	s.out.say("\n  GET $API%s, as a table:\n", path)

	table := s.table("FINGERPRINT", "CATEGORY", "COUNT", "ONE OF ITS REASONS")
	sum := 0

	for _, g := range found.Groups {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", g.Fingerprint, g.Category, g.Count, g.Sample.Reason)
		sum += g.Count
	}

	if err := table.Flush(); err != nil {
		return err
	}

	if err := s.expect("groups", len(found.Groups), 4); err != nil {
		return err
	}

	return s.expect("dead letters in them", sum, dead)
}

func (s *story) table(columns ...string) *tabwriter.Writer {
	table := tabwriter.NewWriter(&indented{out: s.out}, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, strings.Join(columns, "\t"))

	return table
}

// showLetter shows what is kept of one message.
func (s *story) showLetter(ctx context.Context) error {
	const path = "/queues/orders/dead-letters?category=TIMEOUT&limit=1"

	var page letters
	if err := s.api.get(ctx, path, &page); err != nil {
		return err
	}

	if err := only(page.DeadLetters); err != nil {
		return err
	}

	l := page.DeadLetters[0]

	s.out.say("\n  GET $API%s: in short,\n  message %d, %s\n", path, l.Envelope.MessageID, l.Body)

	table := s.table("ATTEMPT", "OUTCOME", "WORKER", "VERSION", "REASON")
	for _, a := range l.Attempts {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n",
			a.Number, a.Outcome, a.Consumer.Instance, a.Consumer.Version, a.Failure.Reason)
	}

	if err := table.Flush(); err != nil {
		return err
	}

	return s.expect("attempts on record", len(l.Attempts), 2)
}

func only(page []letter) error {
	if len(page) != 1 {
		return fmt.Errorf("a page of one dead letter has %d", len(page))
	}

	return nil
}

// showQueue waits until the Queue's status has caught up, and shows it.
func (s *story) showQueue(ctx context.Context, dead int) error {
	for _, command := range []string{
		fmt.Sprintf("kubectl wait queue/orders --for=jsonpath='{.status.deadLetters.count}'=%d --timeout=20s", dead),
		"kubectl get queues",
	} {
		if _, err := s.run(ctx, command); err != nil {
			return err
		}
	}

	return nil
}
