package client

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// document is what the test reads of the OpenAPI document.
type document struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas    map[string]schema
		Parameters map[string]parameter
		Responses  map[string]struct {
			Kinds []string `json:"x-problem-types"`
		}
	}
}

type operation struct {
	ID         string `json:"operationId"`
	Parameters []parameter
	Responses  map[string]struct {
		Content map[string]struct{ Schema schema }
	}
}

// operations are all that the document has.
func (d *document) operations(t *testing.T) map[string]operation {
	t.Helper()
	all := map[string]operation{}
	for path, item := range d.Paths {
		for method, raw := range item {
			if method != "get" && method != "post" {
				continue
			}
			var o operation
			if err := json.Unmarshal(raw, &o); err != nil {
				t.Fatal(err)
			}
			all[method+" "+path] = o
		}
	}
	return all
}

type parameter struct {
	Ref      string `json:"$ref"`
	Name, In string
}

type schema struct {
	Ref          string `json:"$ref"`
	Properties   map[string]schema
	Items        *schema
	OneOf, AllOf []schema
	Enum         []string
}

// openAPI is the document as the server serves it.
func openAPI(t *testing.T) *document {
	t.Helper()
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, sharedAPI(t).URL+"/openapi.json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	d := new(document)
	if err := json.NewDecoder(response.Body).Decode(d); err != nil {
		t.Fatal(err)
	}
	return d
}

// methods are the methods of Client that call each operation.
var methods = map[string]string{
	"listQueues": "Queues", "getQueue": "Queue", "enqueue": "Enqueue EnqueueBatch", "listMessages": "Messages",
	"getMessage": "Get", "claim": "Claim", "succeedBatch": "SucceedBatch", "failBatch": "FailBatch", "succeed": "Succeed",
	"fail": "Fail", "extend": "Extend", "release": "Release", "replay": "Replay", "discard": "Discard", "purge": "Purge",
	"listDeadLetters": "DeadLetters", "listDeadLetterGroups": "Groups", "getDeadLetter": "DeadLetter", "readyz": "Ready",
	"listReplays": "ReplayRuns", "getReplay": "ReplayRun", "listReplayedMessages": "ReplayedMessages", "getRevision": "Revision",
}

// notOurs are for programs that are no clients of queues.
var notOurs = []string{"healthz", "metrics", "openapi"}

// TestEveryRouteHasAMethod walks the document's operations.
func TestEveryRouteHasAMethod(t *testing.T) {
	t.Parallel()
	client := reflect.TypeFor[*Client]()
	left := maps.Clone(methods)
	for route, o := range openAPI(t).operations(t) {
		names, known := methods[o.ID]
		if !known && !slices.Contains(notOurs, o.ID) {
			t.Errorf("no method calls %s (%s)", route, o.ID)
		}
		for name := range strings.FieldsSeq(names) {
			if _, exists := client.MethodByName(name); !exists {
				t.Errorf("there is no method %s", name)
			}
		}
		delete(left, o.ID)
	}
	if len(left) > 0 {
		t.Errorf("there are no operations %v", left)
	}
}

// queries are values that use every query parameter.
var queries = map[string][]string{
	"listQueues":           {"limit", "cursor"},
	"listMessages":         {"status", "limit", "cursor", "offset"},
	"listDeadLetterGroups": {"limit"},
	"listReplays":          {"limit", "cursor"},
	"listReplayedMessages": {"limit", "cursor"},
	"listDeadLetters": slices.Concat([]string{"limit", "cursor"}, slices.Collect(maps.Keys((&DeadLetterFilter{
		Categories: []Category{"c"}, Fingerprints: []string{"f"}, ErrorClass: "e", ConsumerVersion: "v", Reason: "r",
		DiedAfter: time.Unix(1, 0), DiedBefore: time.Unix(1, 0), ReplayCount: new(1), Header: &Header{"n", "v"},
	}).query()))),
	"enqueue": {"Idempotency-Key"},
}

func TestEveryParameterCanBeGiven(t *testing.T) {
	t.Parallel()
	d := openAPI(t)
	for route, o := range d.operations(t) {
		var names []string
		for _, p := range o.Parameters {
			if p.Ref != "" {
				p = d.Components.Parameters[nameOf(p.Ref)]
			}
			names = append(names, p.Name)
		}
		slices.Sort(names)
		if given := slices.Sorted(slices.Values(queries[o.ID])); !slices.Equal(names, given) {
			t.Errorf("%s takes %q, and the client gives %q", route, names, given)
		}
	}
}

func nameOf(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

// types are what the client has for each schema.
var types = map[string]reflect.Type{
	"Attempt": reflect.TypeFor[Attempt](), "AttemptFailure": reflect.TypeFor[AttemptFailure](),
	"ClaimRequest": reflect.TypeFor[claimJSON](), "ClaimedMany": reflect.TypeFor[claimed](),
	"ClaimedMessage": wireOf[*messageFields](), "Consumer": reflect.TypeFor[Consumer](), "DeadLetter": reflect.TypeFor[letterJSON](),
	"Envelope": reflect.TypeFor[Envelope](), "FailItem": reflect.TypeFor[reportJSON](), "FailRequest": reflect.TypeFor[reportJSON](),
	"Failure": reflect.TypeFor[Failure](), "Group": reflect.TypeFor[Group](), "Header": reflect.TypeFor[Header](),
	"LeaseItem": reflect.TypeFor[leaseJSON](), "LeaseRequest": reflect.TypeFor[leaseJSON](), "Message": wireOf[*messageFields](),
	"MessageState": reflect.TypeFor[messageFields](), "NewMessage": reflect.TypeFor[newMessageJSON](),
	"Problem": reflect.TypeFor[Error](), "Purged": reflect.TypeFor[Purged](), "Queue": reflect.TypeFor[Queue](),
	"ReplayRecord": reflect.TypeFor[ReplayRecord](), "Result": reflect.TypeFor[resultJSON](), "Run": reflect.TypeFor[ReplayRun](), "Settings": reflect.TypeFor[Settings](),
}

func wireOf[T any]() reflect.Type {
	return reflect.TypeFor[struct {
		textPayload

		Fields T
	}]()
}

// results are what the client has for the objects that answers describe within themselves.
var results = map[string]reflect.Type{
	"getRevision": reflect.TypeFor[revisionJSON](), "listReplayedMessages": reflect.TypeFor[ReplayedMessage](),
	"listReplays": reflect.TypeFor[ReplayRun](), "listDeadLetterGroups": reflect.TypeFor[Group](),
}

// inline are schemas whose types are within functions: the tests of the calls send and read every field of them.
var inline = []string{
	"DeadLetterPage", "ExtendRequest", "Health", "MessagePage", "Messages", "NewMessages", "PurgeRequest", "QueuePage",
	"ReleaseRequest", "Results",
}

// unused are fields that the client has no use for.
var unused = map[string]string{
	"ClaimedOne":          "claims always give a max, and are answered with messages",
	"ClaimedMany.claimed": "it says whether messages is empty",
}

// TestEveryFieldIsKnown walks the document's schemas, down to the objects within.
func TestEveryFieldIsKnown(t *testing.T) {
	t.Parallel()
	d := openAPI(t)
	for name, s := range d.Components.Schemas {
		switch kind, known := types[name]; {
		case known:
			d.compare(t, name, s, kind)
		case len(s.Properties) > 0 && unused[name] == "" && !slices.Contains(inline, name):
			t.Errorf("the client knows nothing of %s", name)
		}
	}
	for name := range types {
		if _, exists := d.Components.Schemas[name]; !exists {
			t.Errorf("there is no schema %s", name)
		}
	}
}

// TestEveryAnswerIsKnown walks the objects that answers describe within themselves.
func TestEveryAnswerIsKnown(t *testing.T) {
	t.Parallel()
	d := openAPI(t)
	for route, o := range d.operations(t) {
		for _, content := range o.Responses["200"].Content {
			within := content.Schema.Properties
			switch kind, known := results[o.ID]; {
			case len(within) == 0:
			case !known:
				t.Errorf("the client knows nothing of the answer to %s", route)
			default:
				s := content.Schema
				for _, property := range within {
					if property.Items != nil {
						s = *property.Items
					}
				}
				if s.Ref != "" {
					s = d.Components.Schemas[nameOf(s.Ref)]
				}
				d.compare(t, o.ID, s, kind)
			}
		}
	}
}

func (d *document) compare(t *testing.T, path string, s schema, kind reflect.Type) {
	t.Helper()
	fields := fieldsOf(kind)
	for name, property := range s.Properties {
		here := path + "." + name
		field, known := fields[name]
		if !known && unused[here] == "" {
			t.Errorf("the client has no field for %s", here)
		}
		for _, inner := range append(append([]schema{property}, property.OneOf...), property.AllOf...) {
			if inner.Ref != "" {
				inner = d.Components.Schemas[nameOf(inner.Ref)]
			}
			if inner.Items != nil {
				inner = *inner.Items
			}
			if known && len(inner.Properties) > 0 {
				d.compare(t, here, inner, elementOf(field))
			}
		}
	}
}

// elementOf is the struct behind pointers and lists.
func elementOf(kind reflect.Type) reflect.Type {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		kind = kind.Elem()
	}
	return kind
}

// fieldsOf are the fields of a struct by their names in JSON, those of embedded structs included.
func fieldsOf(kind reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for field := range elementOf(kind).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous, field.Name == "Fields":
			maps.Copy(fields, fieldsOf(field.Type))
		case name != "" && name != "-":
			fields[name] = field.Type
		case name == "" && field.IsExported():
			fields[field.Name] = field.Type
		}
	}
	return fields
}

// kinds are all errors that problems can be matched with.
var kinds = []error{
	ErrBodyUnreadable, ErrForbidden, ErrInReplay, ErrInternal, ErrInvalid, ErrMethodNotAllowed, ErrNoLongerKept,
	ErrNotDead, ErrNotFound, ErrNotProcessing, ErrOverloaded, ErrQueueClosed, ErrQueueFull, ErrQueueNotDeclared,
	ErrRequestTimeout,
	ErrStaleLease, ErrTooLarge, ErrUnauthenticated, ErrUnavailable, ErrUnsupportedMediaType,
}

func TestEveryProblemHasAnError(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, response := range openAPI(t).Components.Responses {
		for _, kind := range response.Kinds {
			documented[kind] = true
		}
	}
	for _, kind := range kinds {
		if !documented[kind.Error()] {
			t.Errorf("there is no problem %s", kind)
		}
		delete(documented, kind.Error())
	}
	if len(documented) > 0 {
		t.Errorf("there are no errors for %v", documented)
	}
}

func TestWordsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	statuses := openAPI(t).Components.Schemas["Status"].Enum
	want := []string{string(Pending), string(Processing), string(Succeeded), string(Dead)}
	if !slices.Equal(statuses, want) {
		t.Errorf("the states are %q", statuses)
	}
}
