package cel

import (
	"slices"
	"strings"
	"testing"
)

// TestEveryRuleHasCases fails when a CEL rule has no case that it refuses, or none that it looks at and lets pass. That
// the cases tell the truth is for TestRules.
func TestEveryRuleHasCases(t *testing.T) {
	t.Parallel()

	for _, kind := range kinds {
		cases, rules := loadCases(t, kind), 0

		for _, place := range inputNodes(t, kind) {
			for _, rule := range place.schema.XValidations {
				rules++

				transition := strings.Contains(rule.Rule, "oldSelf")

				t.Run(kind+"/"+place.String()+"/"+rule.Message, func(t *testing.T) {
					t.Parallel()

					if !strings.Contains(rule.Message, "must") && !strings.Contains(rule.Message, "is immutable") {
						t.Errorf("the message %q says neither what must be nor what is immutable", rule.Message)
					}

					if !slices.ContainsFunc(cases, func(c ruleCase) bool { return c.isRefusedBy(place, rule.Message) }) {
						t.Errorf("no case is refused by %q", rule.Rule)
					}

					if !slices.ContainsFunc(cases, func(c ruleCase) bool { return c.passes(place, transition) }) {
						t.Errorf("no case passes %q", rule.Rule)
					}
				})
			}
		}

		if rules == 0 {
			t.Errorf("no rules found in the schema of %s", kind)
		}
	}
}

func (c ruleCase) isRefusedBy(place node, message string) bool {
	return slices.ContainsFunc(c.Denied, func(r refusal) bool {
		return r.Message == message && strings.HasPrefix(r.Field, fieldPrefix(place))
	})
}

// fieldPrefix is how the API server's name of the place begins, up to the first list or map.
func fieldPrefix(place node) string {
	path := place.path
	if at := slices.IndexFunc(path, func(step string) bool { return step == eachItem || step == eachValue }); at >= 0 {
		path = path[:at]
	}

	return strings.Join(path, ".")
}

// passes tells whether the case is accepted and made the rule at the place run.
func (c ruleCase) passes(place node, transition bool) bool {
	if c.Denied != nil || transition && c.Update == nil {
		return false
	}

	if len(place.path) == 0 {
		return true
	}

	before := c.Spec
	if !transition {
		before = c.last()
	}

	return reaches(map[string]any{"spec": before}, place.path) && reaches(map[string]any{"spec": c.last()}, place.path)
}

func TestCaseNamesAreUnique(t *testing.T) {
	t.Parallel()

	for _, kind := range kinds {
		seen := map[string]bool{}

		for _, c := range loadCases(t, kind) {
			if seen[c.Name] {
				t.Errorf("%s has two cases named %q", kind, c.Name)
			}

			seen[c.Name] = true
		}
	}
}
