package queueapi_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"deadletter.dev/deadletter/internal/queueapi"
	"deadletter.dev/deadletter/internal/store"
)

func TestEnqueueRefusesWhatIsNotAMessage(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	long := strings.Repeat("h", 9000)
	tests := map[string][]string{
		``:                     {"payload:required"},
		`{}`:                   {"payload:required"},
		`{"payload":""}`:       {"payload:required"},
		`{"payload":null}`:     {"payload:wrong_type"},
		`{"payload":1}`:        {"payload:wrong_type"},
		`{"payload":{"a":1}}`:  {"payload:wrong_type"},
		`{"payload":["a"]}`:    {"payload:wrong_type"},
		`{"payload":true}`:     {"payload:wrong_type"},
		`{"payload":"\ud800"}`: {"payload:invalid_encoding"},
		`{"payload":"!","payload_encoding":"base64"}`:                                           {"payload:invalid_encoding"},
		`{"payload":"YQ","payload_encoding":"base64"}`:                                          {"payload:invalid_encoding"},
		`{"payload":"YR==","payload_encoding":"base64"}`:                                        {"payload:invalid_encoding"},
		`{"payload":"YQ==\n","payload_encoding":"base64"}`:                                      {"payload:invalid_encoding"},
		`{"payload":"_w==","payload_encoding":"base64"}`:                                        {"payload:invalid_encoding"},
		`{"payload":"","payload_encoding":"base64"}`:                                            {"payload:required"},
		`{"payload":"a","payload_encoding":"hex"}`:                                              {"payload_encoding:invalid_value"},
		`{"payload":"a","payload_encoding":null}`:                                               {"payload_encoding:invalid_value"},
		`{"payload":"a","max_retries":0}`:                                                       {"max_retries:out_of_range"},
		`{"payload":"a","max_retries":11}`:                                                      {"max_retries:out_of_range"},
		`{"payload":"a","max_retries":-1}`:                                                      {"max_retries:out_of_range"},
		`{"payload":"a","max_retries":99999999999999999999}`:                                    {"max_retries:wrong_type"},
		`{"payload":"a","max_retries":"3"}`:                                                     {"max_retries:wrong_type"},
		`{"payload":"a","max_retries":2.5}`:                                                     {"max_retries:wrong_type"},
		`{"payload":"a","max_retries":true}`:                                                    {"max_retries:wrong_type"},
		`{"payload":"a","max_retries":null}`:                                                    {"max_retries:wrong_type"},
		`{"payload":"a","max_retries":[3]}`:                                                     {"max_retries:wrong_type"},
		`{"payload":"a","max_retries":{}}`:                                                      {"max_retries:wrong_type"},
		`{"payload":"a","delay_seconds":-1}`:                                                    {"delay_seconds:out_of_range"},
		`{"payload":"a","delay_seconds":7776001}`:                                               {"delay_seconds:out_of_range"},
		`{"payload":"a","delay_seconds":"1"}`:                                                   {"delay_seconds:wrong_type"},
		`{"payload":"a","headers":{}}`:                                                          {"headers:wrong_type"},
		`{"payload":"a","headers":[1]}`:                                                         {"headers[0]:wrong_type"},
		`{"payload":"a","headers":[{"name":"a"}]}`:                                              {"headers[0].value:required"},
		`{"payload":"a","headers":[{}]}`:                                                        {"headers[0].name:required", "headers[0].value:required"},
		`{"payload":"a","headers":[{"name":"","value":""}]}`:                                    {"headers[0].name:required"},
		`{"payload":"a","headers":[{"name":"a","value":1}]}`:                                    {"headers[0].value:wrong_type"},
		`{"payload":"a","headers":[{"name":"a","value":"\u0000"}]}`:                             {"headers[0].value:invalid_value"},
		`{"payload":"a","headers":[{"name":"a\u0000","value":""}]}`:                             {"headers[0].name:invalid_value"},
		`{"payload":"a","headers":[{"name":"a","value":"\udc00"}]}`:                             {"headers[0].value:invalid_encoding"},
		`{"payload":"a","headers":[{"name":"a","value":"b","x":1}]}`:                            {"headers[0].x:unknown_field"},
		`{"payload":"a","headers":[{"name":"a","value":"` + long + `"}]}`:                       {"headers[0].value:too_long"},
		`{"payload":"a","headers":[{"name":"` + long + `","value":""}]}`:                        {"headers[0].name:too_long"},
		`{"payload":"a","headers":` + repeat(`{"name":"a","value":""}`, 101) + `}`:              {"headers:too_many"},
		`{"payload":"a","headers":` + repeat(`{"name":"a","value":"`+long[:8000]+`"}`, 9) + `}`: {"headers:too_long"},
		`{"messages":[]}`:   {"messages:out_of_range"},
		`{"messages":{}}`:   {"messages:wrong_type"},
		`{"messages":null}`: {"messages:wrong_type"},
		`{"messages":[{"payload":"a"}],"payload":"b"}`:                     {"payload:unknown_field"},
		`{"messages":[{"payload":"a"},3,{"payload":""}]}`:                  {"messages[1]:wrong_type", "messages[2].payload:required"},
		`{"messages":[{"payload":"a"},{"payload":"a","max_retries":"x"}]}`: {"messages[1].max_retries:wrong_type"},
		`{"messages":` + repeat(`{"payload":"a"}`, 1001) + `}`:             {"messages:too_many"},
	}
	for body, want := range tests {
		got := s.do(http.MethodPost, "/queues/orders/messages", body).problem(422, "invalid-request").fields()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%.120s (-want +got):\n%s", body, diff)
		}
	}
	s.do(http.MethodGet, "/queues/orders", nil).problem(http.StatusNotFound, "not-found")
}

func repeat(item string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
}

func TestProblemsNeverRepeatValues(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const secret = "hunter2"
	bodies := []string{
		`{"payload":["` + secret + `"]}`, `{"payload":"a","max_retries":"` + secret + `"}`, `{"payload":"` + secret + `\ud800"}`,
		`{"payload":"a","headers":[{"name":"a","value":"` + secret + `\u0000"}]}`, `{"payload":"` + secret + `"`,
	}
	for _, body := range bodies {
		answer := s.do(http.MethodPost, "/queues/orders/messages", body)
		if answer.want(422); strings.Contains(string(answer.body), secret) {
			t.Errorf("%s is answered with its value: %s", body, answer.body)
		}
	}
	if strings.Contains(s.logs.String(), secret) {
		t.Error("the log holds a value")
	}
}

func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	body := `{"messages":` + repeat(`{"payload":""}`, 500) + `}`
	p := s.do(http.MethodPost, "/queues/orders/messages", body).problem(422, "invalid-request")
	if len(p.Errors) != 20 {
		t.Errorf("%d errors, want 20", len(p.Errors))
	}
	name := strings.Repeat("n", 5000)
	p = s.do(http.MethodPost, "/queues/orders/messages", `{"payload":"a","`+name+`":1}`).problem(422, "invalid-request")
	if len(p.Errors[0].Field) > 100 {
		t.Errorf("a field name of %d bytes is repeated", len(p.Errors[0].Field))
	}
}

func TestEveryByteComesBack(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
		s.roundTrip("bytes", []byte{byte(b)})
	}
	s.roundTrip("bytes", all)
	s.roundTrip("bytes", []byte("\x00"))
	s.roundTrip("bytes", []byte("<&>\u2028\u2029\ufeff é 😀 \"\\/"))
}

// roundTrip enqueues bytes in every encoding that can hold them, and checks each way to read them.
func (s *server) roundTrip(queue string, payload []byte) {
	s.t.Helper()
	bodies := []map[string]any{
		{"payload": base64.StdEncoding.EncodeToString(payload), "payload_encoding": "base64"},
	}
	wantEncoding := "base64"
	if utf8.Valid(payload) {
		wantEncoding = "utf-8"
		explicit := map[string]any{"payload": string(payload), "payload_encoding": "utf-8"}
		bodies = append(bodies, payloadOf(string(payload)), explicit)
	}
	for _, body := range bodies {
		stored := s.enqueue(queue, body)
		views := []msg{stored, s.claim(queue), decode[msg](s.do(http.MethodGet, itemPath(queue, stored.ID), nil).want(200))}
		for _, view := range views {
			if got := view.bytes(s.t); !bytes.Equal(got, payload) || view.PayloadEncoding != wantEncoding ||
				view.PayloadSize != len(payload) {
				s.t.Fatalf("%.40q came back as %.40q (%s, %d bytes)", payload, got, view.PayloadEncoding, view.PayloadSize)
			}
		}
		s.do(http.MethodPost, itemPath(queue, stored.ID)+"/succeed", nil).want(200)
	}
}

// bytes decodes the payload.
func (m msg) bytes(t *testing.T) []byte {
	t.Helper()
	if m.PayloadEncoding == "utf-8" {
		return []byte(m.Payload)
	}
	decoded, err := base64.StdEncoding.DecodeString(m.Payload)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

func TestPayloadLimit(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	s := newServer(t)
	for _, size := range []int{1, limit - 1, limit} {
		for _, fill := range []string{"a", "\x00", "\xff"} {
			s.roundTrip("big", []byte(strings.Repeat(fill, size)))
		}
	}
	above := strings.Repeat("a", limit+1)
	got := s.do(http.MethodPost, "/queues/big/messages", payloadOf(above)).problem(413, "too-large").fields()
	if diff := cmp.Diff([]string{"payload:too_large"}, got); diff != "" {
		t.Error(diff)
	}
	batch := map[string]any{"messages": []any{payloadOf("a"), payloadOf(above)}}
	got = s.do(http.MethodPost, "/queues/big/messages", batch).problem(413, "too-large").fields()
	if diff := cmp.Diff([]string{"messages[1].payload:too_large"}, got); diff != "" {
		t.Error(diff)
	}
	if got := decode[claimed](s.do(http.MethodPost, "/queues/big/claim", nil).want(200)); got.Claimed {
		t.Error("a batch that was refused left a message")
	}
}

func TestPayloadLimitIsConfigurable(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(options *queueapi.Options, _ *store.Options) { options.Limits.MaxPayloadBytes = 4 })
	s.roundTrip("small", []byte("\x00\xff\x00\xff"))
	s.do(http.MethodPost, "/queues/small/messages", payloadOf("aaaaa")).problem(413, "too-large")
}

func TestHeadersKeepOrderAndDuplicates(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	headers := []map[string]string{
		{"name": "b", "value": "1"},
		{"name": "a", "value": ""},
		{"name": "b", "value": "1"},
		{"name": "B", "value": " x\t\n "},
		{"name": "ü/😀", "value": "\u0001\u007f\u2028"},
	}
	s.enqueue("orders", map[string]any{"payload": "x", "headers": headers})
	if diff := cmp.Diff(headers, s.claim("orders").Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestQueueNamesAreNormalisedAndPercentDecoded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	names := []string{"a/b", "a b", "a+b", "a%2Fb", "a:b#c?d", "عربي", "...", "~", strings.Repeat("ü", 127), "é"}
	for _, name := range names {
		m := s.enqueue(name, payloadOf(name))
		if m.Queue != name {
			t.Errorf("queue %q is called %q", name, m.Queue)
		}
		if got := s.claim(name); got.Payload != name {
			t.Errorf("queue %q has the message of %q", name, got.Payload)
		}
		s.do(http.MethodGet, queuePath(name), nil).want(200)
	}
	if m := s.enqueue("e\u0301", payloadOf("x")); m.Queue != "é" {
		t.Errorf("NFD name is called %q", m.Queue)
	}
	post(t, s.url+"/queues/a+b/messages", http.Header{}, `{"payload":"plus"}`).want(201)
	if got := s.claim("a+b"); got.Payload != "plus" {
		t.Error("a plus in a path is not a plus")
	}
}

func TestDelayedMessageWaits(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	m := s.enqueue("orders", `{"payload":"x","delay_seconds":7776000}`)
	if m.RetryAfter == nil || m.Status != "pending" {
		t.Fatalf("delayed message %+v", m)
	}
	if got := decode[claimed](s.do(http.MethodPost, "/queues/orders/claim", nil).want(200)); got.Claimed {
		t.Error("a delayed message is claimed")
	}
}

// TestAcceptedMessageComesBackIdentical: whatever is accepted is returned byte for byte, by every view.
func TestAcceptedMessageComesBackIdentical(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	rapid.Check(t, func(rt *rapid.T) {
		payload := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(rt, "payload")
		header := rapid.Custom(func(rt *rapid.T) map[string]string {
			text := rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return r != 0 }), 0, 20, 200)
			return map[string]string{"name": "n" + text.Draw(rt, "name"), "value": text.Draw(rt, "value")}
		})
		headers := rapid.SliceOfN(header, 0, 5).Draw(rt, "headers")
		body := map[string]any{
			"payload": base64.StdEncoding.EncodeToString(payload), "payload_encoding": "base64", "headers": headers,
		}
		id := s.enqueue("property", body).ID
		failing := itemPath("property", s.claim("property").ID) + "/fail"
		dead := decode[msg](s.do(http.MethodPost, failing, `{"retryable":false}`).want(200))
		letter := decode[letter](s.do(http.MethodGet, letterPath("property", id), nil).want(200))
		s.do(http.MethodPost, itemPath("property", id)+"/replay", nil).want(200)
		again := s.claim("property")
		s.do(http.MethodPost, itemPath("property", id)+"/succeed", nil).want(200)
		for _, view := range []msg{dead, again, letter.message()} {
			if got := view.bytes(t); !bytes.Equal(got, payload) || !sameJSON(view.Headers, headers) {
				rt.Fatalf("payload %q, headers %v came back as %q, %v", payload, headers, got, view.Headers)
			}
		}
	})
}

func sameJSON(a, b any) bool {
	left, _ := json.Marshal(a)
	right, _ := json.Marshal(b)
	return bytes.Equal(left, right)
}
