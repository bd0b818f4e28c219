package main

import (
	"os/exec"
	"strings"
)

const instructions = `
In a shell in this folder:

  export KUBECONFIG=$KUBECONFIG$PATHLINE
  API=http://$(kubectl get pods -l app.kubernetes.io/instance=default -o jsonpath='{.items[0].status.podIP}'):8080

Look around:

  kubectl get brokers,queues,pods
  kubectl describe queue orders
  kubectl explain replay.spec.selector
  curl -s $API/queues/orders/dead-letters/groups
  curl -s "$API/queues/orders/dead-letters?category=TIMEOUT&limit=1"
  curl -s $API/openapi.json

Replay the dead letters of one category, after a preview, and be the worker that gets them:

  kubectl apply -f hack/demo/manifests/replay.yaml
  kubectl get replays -o wide
  kubectl patch replay payment-outage --type=merge -p '{"spec":{"mode":"Execute"}}'
  curl -s $API/queues/orders/claim --json '{}'

Make the operator work:

  kubectl scale broker default --replicas=2
  kubectl delete pods -l app.kubernetes.io/instance=default    # the API has another address then

Logs are in $DIR: operator.log, and hostpods.log with the output of the pods.
Stop everything with: make down
`

// explain says how to use what `demo up` has left running.
func (p *printer) explain(place *place, current *state) {
	pathLine := ""
	if _, err := exec.LookPath("kubectl"); err != nil {
		pathLine = "\n  export PATH=" + current.Path + ":$PATH"
	}

	p.heading("It keeps running: a queue with dead letters to play with")
	p.say("%s", strings.NewReplacer(
		"$KUBECONFIG", place.kubeconfig(), "$PATHLINE", pathLine, "$DIR", place.dir,
	).Replace(strings.TrimSpace(instructions)))
}
