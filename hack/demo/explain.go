package main

import "strings"

// explain says how to use what `demo up` has left running.
func (p *printer) explain(place *place, current *state) {
	p.heading("It keeps running: a queue with dead letters to play with")
	p.say(strings.TrimSpace(`
In a shell in this folder:

  export KUBECONFIG=` + place.kubeconfig() + `
  export PATH=` + current.Path + `:$PATH    # for kubectl, where none is installed
  API=http://$(kubectl get pods -l app.kubernetes.io/instance=default -o jsonpath='{.items[0].status.podIP}'):8080

Then try:

  kubectl get brokers,queues,replays,pods
  kubectl describe queue orders
  kubectl explain replay.spec.selector
  curl -s $API/queues/orders/dead-letters/groups
  curl -s "$API/queues/orders/dead-letters?category=TIMEOUT&limit=1"
  curl -s $API/openapi.json

  kubectl apply -f hack/demo/manifests/replay.yaml          # mode Preview: counts, moves nothing
  kubectl get replays -o wide
  kubectl patch replay payment-outage --type=merge -p '{"spec":{"mode":"Execute"}}'
  curl -s $API/queues/orders/claim --json '{}'              # be the worker

  kubectl scale broker default --replicas=2
  kubectl delete pods -l app.kubernetes.io/instance=default

Logs are in ` + place.dir + `: operator.log, and hostpods.log with the output of the pods.
Stop everything with: make down
`))
}
