package store

import (
	"strconv"
	"strings"
)

// arguments collects parameters and hands out their placeholders.
type arguments []any

func (a *arguments) add(value any) string {
	*a = append(*a, value)
	return "$" + strconv.Itoa(len(*a))
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// where turns the filter into conditions on a dead message m of the queue in parameter queue.
func (f DeadLetterFilter) where(args *arguments, queueID string) string {
	conditions := []string{"m.queue_id = " + queueID, "m.status = 'dead'"}
	when := func(set bool, condition func() string) {
		if set {
			conditions = append(conditions, condition())
		}
	}
	when(len(f.Categories) > 0, func() string {
		categories := make([]string, len(f.Categories))
		for i, c := range f.Categories {
			categories[i] = string(c)
		}
		return "m.failure_category = ANY (" + args.add(categories) + "::text[])"
	})
	when(len(f.Fingerprints) > 0, func() string {
		return "m.fingerprint = ANY (" + args.add(f.Fingerprints) + "::text[])"
	})
	when(f.ErrorClass != "", func() string { return "m.error_class = " + args.add(f.ErrorClass) })
	when(f.ReasonContains != "", func() string {
		return "m.failure_reason LIKE " + args.add("%"+likeEscaper.Replace(f.ReasonContains)+"%")
	})
	when(len(f.ConsumerVersions) > 0, func() string {
		return "m.failed_version = ANY (" + args.add(f.ConsumerVersions) + "::text[])"
	})
	when(!f.DiedAfter.IsZero(), func() string { return "m.dead_at >= " + args.add(f.DiedAfter) })
	when(!f.DiedBefore.IsZero(), func() string { return "m.dead_at < " + args.add(f.DiedBefore) })
	when(f.ReplayCount != nil, func() string { return "m.replay_count = " + args.add(*f.ReplayCount) })
	when(len(f.IDs) > 0, func() string { return "m.id = ANY (" + args.add(f.IDs) + "::bigint[])" })
	for _, header := range f.Headers {
		conditions = append(conditions, "EXISTS (SELECT FROM json_array_elements(m.headers) h WHERE h->>0 = "+
			args.add(header.Name)+" AND h->>1 = "+args.add(header.Value)+")")
	}
	return strings.Join(conditions, " AND ")
}

// expand replaces {name} by its text. Only text of this package goes in; values are parameters.
func expand(statement string, parts map[string]string) string {
	pairs := make([]string, 0, 2*len(parts))
	for name, text := range parts {
		pairs = append(pairs, "{"+name+"}", text)
	}
	return strings.NewReplacer(pairs...).Replace(statement)
}
