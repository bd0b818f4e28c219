// Package cel holds the tests of the rules in the custom resource definitions, run against a real kube-apiserver.
//
// testdata/<kind>.yaml lists the cases of one kind: what is created, what it is changed to, and either what is stored
// or why it is refused. Every CEL rule must have a case that it refuses and a case that it looks at and lets pass; the
// bounds of single fields are tried out from the schema itself.
package cel
