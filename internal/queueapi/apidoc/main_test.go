package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/http-api.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/http-api.md is not what openapi.yaml says; run 'go generate ./internal/queueapi':\n%s", diff)
	}
}

func TestReferenceNamesEveryRouteAndProblem(t *testing.T) {
	t.Parallel()
	text, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"### POST /queues/{queue}/claim\n", "### GET /queues/{queue}/dead-letters/{id}\n", "### GET /readyz\n", "| `stale-lease` |",
		"| `max_retries` (optional) | integer |", "| `category` | array of string |", `"payload_encoding": "base64"`,
		"| `depth.pending` | integer |", "| `declared_by.namespace` | string |", "| `backoff.initial_seconds` | number |",
		"| `retention.on_dead_expiry` | `Delete`, `Keep` |", "| `sample.reason` | string |", "| `errors[].field` | string |",
		"| `groups` | array of [Group](#group) |", "`--auth none`",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the reference lacks %q", want)
		}
	}
}
