package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/queueapi/strictjson"
)

func TestParseRefusesWhatIsNotOneValue(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", " ", "{", "{}{}", "{} x", `{"a":1,}`, "nul", "\xef\xbb\xbf{}", "01", "'a'"} {
		if _, err := strictjson.Parse([]byte(body)); err == nil {
			t.Errorf("Parse(%q) succeeded, want an error", body)
		}
	}
}

func TestMembersKeepsOrderAndDuplicates(t *testing.T) {
	t.Parallel()
	doc := " { \"a\" : 1 ,\n\"b\\u0062\":[ {\"x\":\"]}\"} , \"\\\\\" ],\"a\":{} , \"\": null} "
	value, err := strictjson.Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for name, member := range value.Members() {
		got = append(got, name+"="+string(member))
	}
	want := []string{"a=1", `bb=[ {"x":"]}"} , "\\" ]`, "a={}", "=null"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}

func TestIntAcceptsIntegralNumbersOnly(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		want int64
		ok   bool
	}{
		"0": {0, true}, "-7": {-7, true}, "3.0": {3, true}, "3e2": {300, true}, "9223372036854775807": {1<<63 - 1, true},
		"3.5": {}, "1e400": {}, "9223372036854775808": {}, `"3"`: {}, "true": {}, "null": {}, "[]": {}, "{}": {},
	}
	for doc, test := range tests {
		got, ok := mustParse(t, doc).Int()
		if got != test.want || ok != test.ok {
			t.Errorf("Int(%s) = %d, %t; want %d, %t", doc, got, ok, test.want, test.ok)
		}
	}
}

func TestTextDecodesEscapes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		want  string
		exact bool
	}{
		`""`:                    {"", true},
		`"plain ü"`:             {"plain ü", true},
		`"\"\\\/\b\f\n\r\t"`:    {"\"\\/\b\f\n\r\t", true},
		`"\u0000\u00e9\u20AC"`:  {"\x00é€", true},
		`"\ud83d\ude00!"`:       {"😀!", true},
		`"\ud83d"`:              {`\ud83d`, false},
		`"\ude00\ud83d"`:        {`\ude00\ud83d`, false},
		`"\ud83d\u0041"`:        {`\ud83dA`, false},
		`"\ud83d\ud83d\ude00"`:  {`\ud83d😀`, false},
		`"\ufffd"`:              {"\ufffd", true},
		"\"raw \xff byte\"":     {"raw \xff byte", true},
		`"ends in backslash\\"`: {`ends in backslash\`, true},
	}
	for doc, test := range tests {
		got, exact := mustParse(t, doc).Text()
		if got != test.want || exact != test.exact {
			t.Errorf("Text(%s) = %q, %t; want %q, %t", doc, got, exact, test.want, test.exact)
		}
	}
}

// FuzzValue checks the walk against encoding/json: on every document that is valid, it neither panics nor disagrees.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2,{"b":"\"]"}],"c":null}`, `["\ud83d\ude00",true,false,-1.5e3]`, `"x"`, `{}`, `[]`, `[[[]]]`, `{"a":{"a":{}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		value, err := strictjson.Parse(doc)
		if (err == nil) != json.Valid(doc) {
			t.Fatalf("Parse(%q) = %v", doc, err)
		}
		if err == nil {
			compare(t, value)
		}
	})
}

func compare(t *testing.T, value strictjson.Value) {
	t.Helper()
	if !json.Valid(value) {
		t.Fatalf("%q is not a JSON value", value)
	}
	switch value.Kind() {
	case strictjson.Object:
		members := map[string]bool{}
		for name, member := range value.Members() {
			members[name] = true
			compare(t, member)
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(value, &want); err != nil || len(want) > len(members) {
			t.Fatalf("%q: %d members, want %d (%v)", value, len(members), len(want), err)
		}
	case strictjson.Array:
		count := 0
		for element := range value.Elements() {
			count++
			compare(t, element)
		}
		var want []json.RawMessage
		if err := json.Unmarshal(value, &want); err != nil || len(want) != count {
			t.Fatalf("%q: %d elements, want %d (%v)", value, count, len(want), err)
		}
	case strictjson.String:
		text, exact := value.Text()
		var want string
		if err := json.Unmarshal(value, &want); err != nil {
			t.Fatal(err)
		}
		if exact && utf8.ValidString(text) && text != want {
			t.Fatalf("Text(%q) = %q, want %q", value, text, want)
		}
		if !exact && !strings.ContainsRune(want, utf8.RuneError) {
			t.Fatalf("Text(%q) is called inexact, but decodes to %q", value, want)
		}
	case strictjson.Number, strictjson.Bool, strictjson.Null:
	}
}

func mustParse(t *testing.T, doc string) strictjson.Value {
	t.Helper()
	value, err := strictjson.Parse([]byte(doc))
	if err != nil {
		t.Fatalf("Parse(%s): %v", doc, err)
	}
	return value
}
