package main

import "strings"

const instructions = `
In a shell in this folder:

  export KUBECONFIG=$KUBECONFIG
  export PATH=$BIN:$PATH
  IP="jsonpath={.items[0].status.podIP}"
  api() { kubectl get pods -n deadletter-system -l app.kubernetes.io/component=api -o "$IP"; }
  API=http://$(api):8080

Look around:

  kubectl get queues
  kubectl get brokers,pods -n deadletter-system
  kubectl describe queue orders
  kubectl explain replay.spec.selector
  curl -s $API/queues/orders/dead-letters/groups
  curl -s "$API/queues/orders/dead-letters?category=TIMEOUT&limit=1"
  curl -s $API/openapi.json

Make another queue; it needs no spec:

  kubectl apply -f config/samples/queue_minimal.yaml
  curl -s $API/queues/emails/messages --json '{"payload": "hello"}'

Replay the dead letters of one category, after a preview, and be the worker that gets them:

  kubectl apply -f hack/demo/manifests/replay.yaml
  kubectl wait replay/payment-outage --for=condition=Ready --timeout=30s
  kubectl get replays -o wide
  kubectl patch replay payment-outage --type=merge -p '{"spec":{"mode":"Execute"}}'
  kubectl wait replay/payment-outage --for=condition=Ready --timeout=30s
  curl -s $API/queues/orders/claim --json '{"wait_seconds": 5}'

Make the operator work:

  kubectl scale broker default -n deadletter-system --replicas=2
  kubectl delete pods -n deadletter-system -l app.kubernetes.io/component=postgres    # the messages are still there
  kubectl delete pods -n deadletter-system -l app.kubernetes.io/component=api         # then: API=http://$(api):8080

Logs are in $DIR: operator.log, and hostpods.log with the output of the pods.
Stop everything with: make down
`

// explain says how to use what `demo up` has left running.
func (p *printer) explain(place *place, current *state) {
	p.heading("It keeps running: a queue with dead letters to play with")
	p.say("%s", strings.NewReplacer(
		"$KUBECONFIG", place.kubeconfig(), "$BIN", current.Path, "$DIR", place.dir,
	).Replace(strings.TrimSpace(instructions)))
}
