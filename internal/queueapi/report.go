package queueapi

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/queueapi/strictjson"
	"deadletter.dev/deadletter/internal/store"
)

// noReason is recorded when a worker reports a failure without saying what it was.
const noReason = "no error was reported"

// decodeReport reads a failure report. Nothing in it can make recording the failure fail: what has the wrong type is
// taken as its JSON text or left out with a mark, what is unknown is ignored, what is too long is cut with a mark when
// it is stored, and a body that is no JSON object is recorded as text. Refused is only what might hide a fence: a lease
// token that is none.
//
// An empty body is a report that says nothing. rest is what is known of the part that was not kept, if there was one.
func decodeReport(body []byte, rest *tokenScan) (store.FailedLease, error) {
	if rest != nil {
		return salvageReport(body, rest)
	}
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	if len(body) == 0 {
		body = []byte("{}")
	}
	value, err := strictjson.Parse(body)
	if err != nil || value.Kind() != strictjson.Object {
		return salvageReport(body, nil)
	}
	return readReport(nil, value)
}

func readReport(p *place, v strictjson.Value) (store.FailedLease, error) {
	failed := store.FailedLease{Report: message.Report{Reason: noReason}}
	if v.Kind() != strictjson.Object {
		return failed, problemInvalid(fieldError{
			Field: p.String(), Code: codeWrongType, Message: "must be an object, not " + article(v.Kind()),
		})
	}
	var (
		err      error
		ignored  []string
		hasToken = false
	)
	for name, v := range v.Members() {
		if name != "lease_token" {
			if !readReportMember(&failed.Report, name, v) {
				ignored = append(ignored, name)
			}
			continue
		}
		token, ok := leaseToken(v)
		if !ok || hasToken {
			here := p.in("lease_token")
			err = problemInvalid(fieldError{
				Field: here.String(), Code: codeInvalidValue,
				Message: "must be the lease_token of the claim's answer, once; leave it out to act on the current lease",
			})
		}
		failed.Token, hasToken = token, true
	}
	for _, name := range ignored {
		mark(&failed.Report, "…[invalid "+name+" ignored]")
	}
	return failed, err
}

// mark adds to what is shown as the reason.
func mark(report *message.Report, text string) {
	report.Reason = message.Clean(report.Reason, message.MaxReasonBytes-len(text)) + text
}

// readReportMember reads one member, and reports whether its value could be used. Null is as good as left out.
func readReportMember(report *message.Report, name string, v strictjson.Value) bool {
	isNull := v.Kind() == strictjson.Null
	switch name {
	case "error":
		// A dead letter must say why it died, if only that nobody said.
		if text := anyText(v); strings.TrimSpace(text) != "" {
			report.Reason = text
		}
	case "category":
		report.Category = anyText(v)
	case "error_class":
		report.ErrorClass = anyText(v)
	case "stack_trace":
		report.StackTrace = stackText(v)
	case "retryable":
		retryable, ok := v.Bool()
		report.Permanent = ok && !retryable
		return ok || isNull
	case "retry_after_seconds":
		report.RetryAfter = anySeconds(v)
		return report.RetryAfter != nil || isNull
	case "consumer":
		if v.Kind() != strictjson.Object {
			return isNull
		}
		for name, v := range v.Members() {
			readReportConsumer(&report.Consumer, name, v)
		}
	}
	return true
}

func readReportConsumer(consumer *message.Consumer, name string, v strictjson.Value) {
	switch name {
	case "instance":
		consumer.Instance = anyText(v)
	case "version":
		consumer.Version = anyText(v)
	}
}

// anyText is the text of a string, nothing for null, and the JSON itself for what should have been a string.
func anyText(v strictjson.Value) string {
	switch v.Kind() {
	case strictjson.String:
		text, _ := v.Text()
		return text
	case strictjson.Null:
		return ""
	case strictjson.Object, strictjson.Array, strictjson.Number, strictjson.Bool:
		return string(v)
	default:
		return string(v)
	}
}

// stackText is anyText for a stack trace, which many languages report as an array of lines.
func stackText(v strictjson.Value) string {
	if v.Kind() != strictjson.Array {
		return anyText(v)
	}
	var lines []byte
	for element := range v.Elements() {
		lines = append(append(lines, anyText(element)...), '\n')
	}
	return string(lines)
}

// anySeconds is a finite number of seconds, whole or not, as a number or a number written in a string; nil for anything
// else. What is too long is held to the longest delay.
func anySeconds(v strictjson.Value) *time.Duration {
	if v.Kind() == strictjson.String {
		text, _ := v.Text()
		var err error
		// Not all that the language takes for a number is one: Inf, NaN, hexadecimal.
		if v, err = strictjson.Parse([]byte(text)); err != nil {
			return nil
		}
	}
	if v.Kind() != strictjson.Number {
		return nil
	}
	seconds, err := strconv.ParseFloat(string(v), 64)
	if err != nil || seconds < 0 { // An error is a number beyond all bounds.
		return nil
	}
	seconds = min(seconds, message.MaxDelay.Seconds())
	delay := time.Duration(seconds * float64(time.Second))
	return &delay
}

// reportItem is one item of a batch of failures, or why it is refused.
type reportItem struct {
	failed store.FailedLease
	err    error
}

// decodeReports reads a batch of failure reports. Only a batch that is none is refused as a whole.
func decodeReports(body []byte) ([]reportItem, error) {
	value, err := strictjson.Parse(body)
	if err != nil {
		return nil, problemInvalid(malformedJSON())
	}
	var list strictjson.Value
	if value.Kind() == strictjson.Object {
		for name, v := range value.Members() {
			if name == "items" {
				list = v
			}
		}
	}
	var in input
	root := (*place)(nil).in("items")
	if list == nil {
		in.refuse(&root, codeRequired, "must be given: an array of failures")
		return nil, in.err()
	}
	if !in.array(&root, list, 1, maxBatch) {
		return nil, in.err()
	}
	var items []reportItem
	for element := range list.Elements() {
		here := root.at(len(items))
		items = append(items, readReportItem(&here, element))
	}
	return items, nil
}

func readReportItem(p *place, v strictjson.Value) reportItem {
	failed, err := readReport(p, v)
	if err != nil {
		return reportItem{failed, err}
	}
	var in input
	count := 0
	for name, v := range v.Members() {
		if name == "id" {
			here := p.in("id")
			failed.ID = in.id(&here, v)
			count++
		}
	}
	if count != 1 {
		here := p.in("id")
		in.refuse(&here, codeRequired, "must be given once: the id of a message")
	}
	return reportItem{failed, in.err()}
}
