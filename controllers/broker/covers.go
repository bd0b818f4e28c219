package broker

import "slices"

// covers tells whether an object holds everything that is wanted of it. What else it holds is the cluster's, or other
// owners': defaults, and entries of named lists.
func covers(live, wanted map[string]any, except ...string) bool {
	for key, want := range wanted {
		if slices.Contains(except, key) {
			continue
		}

		if have, found := live[key]; !found && !isEmpty(want) || found && !coversValue(have, want) {
			return false
		}
	}

	return true
}

func coversValue(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)

		return ok && covers(have, want)
	case []any:
		have, ok := have.([]any)

		return ok && coversList(have, want)
	default:
		return have == want
	}
}

// coversList compares named lists by name, and any other element by element.
func coversList(have, want []any) bool {
	if len(want) > 0 && nameOf(want[0]) != "" {
		return !slices.ContainsFunc(want, func(element any) bool {
			i := slices.IndexFunc(have, func(other any) bool { return nameOf(other) == nameOf(element) })

			return i < 0 || !coversValue(have[i], element)
		})
	}

	return slices.EqualFunc(have, want, coversValue)
}

// nameOf returns the name of an element of a list such as containers, env, ports or volumes.
func nameOf(element any) string {
	fields, _ := element.(map[string]any)
	name, _ := fields["name"].(string)

	return name
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	default:
		return false
	}
}
