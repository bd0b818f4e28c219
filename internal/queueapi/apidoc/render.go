package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// renderer writes the reference as Markdown.
type renderer struct {
	document
	strings.Builder
}

func (r *renderer) line(format string, args ...any) {
	fmt.Fprintf(r, format+"\n", args...)
}

// render returns the whole reference.
func (d document) render() (string, error) {
	r := &renderer{document: d}
	r.line("<!-- Made from internal/queueapi/openapi.yaml by `go generate ./internal/queueapi`; do not edit. -->")
	r.line("# %s\n\n%s\n\n%s", d.Info.Title, d.Info.Summary, d.Info.Description)
	r.line("The same, for programs, is the OpenAPI 3.1 document at `/openapi.json`.\n")
	for _, t := range d.Tags {
		r.line("## %s\n\n%s\n", t.Name, t.Description)
		for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
			for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
				if op := d.Paths[path][method]; slices.Contains(op.Tags, t.Name) {
					if err := r.operation(strings.ToUpper(method), path, op); err != nil {
						return "", err
					}
				}
			}
		}
	}
	r.schemas()
	r.problems()
	return strings.TrimRight(r.String(), "\n") + "\n", nil
}

func (r *renderer) operation(method, path string, op operation) error {
	r.line("### %s %s\n\n%s.\n", method, path, op.Summary)
	if op.Description != "" {
		r.line("%s\n", strings.TrimSpace(op.Description))
	}
	r.parameters(op.Parameters)
	if op.RequestBody != nil {
		if err := r.requestBody(op.RequestBody); err != nil {
			return err
		}
	}
	r.line("| status | answer |\n| --- | --- |")
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		answer := op.Responses[status]
		if answer.Ref != "" {
			answer = r.Components.Responses[lastPart(answer.Ref)]
		}
		text := oneLine(answer.Description)
		if content, ok := answer.Content["application/json"]; ok {
			text += " Body: " + content.Schema.kind() + "."
		}
		r.line("| %s | %s |", status, text)
	}
	r.line("")
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		if inner := op.Responses[status].Content["application/json"].Schema.inner(); inner != nil {
			r.line("Body of %s:\n", status)
			r.fields(*inner)
		}
	}
	return nil
}

func (r *renderer) parameters(all []parameter) {
	header := false
	for _, p := range all {
		if p.Ref != "" {
			p = r.Components.Parameters[lastPart(p.Ref)]
		}
		if p.In != "query" {
			continue
		}
		if !header {
			r.line("| query parameter | type | meaning |\n| --- | --- | --- |")
			header = true
		}
		r.line("| `%s` | %s | %s |", p.Name, p.Schema.kind(), meaning(p.Schema, p.Description))
	}
	if header {
		r.line("")
	}
}

func (r *renderer) requestBody(b *body) error {
	content := b.Content["application/json"]
	optional := ""
	if !b.Required {
		optional = " (may be left out)"
	}
	r.line("Body%s: %s.\n", optional, content.Schema.kind())
	if inner := content.Schema.inner(); inner != nil {
		r.fields(*inner)
	}
	for _, name := range slices.Sorted(maps.Keys(content.Examples)) {
		e := content.Examples[name]
		text, err := json.MarshalIndent(e.Value, "", "  ")
		if err != nil {
			return fmt.Errorf("example %s: %w", name, err)
		}
		if e.Summary != "" {
			r.line("%s:\n", e.Summary)
		}
		r.line("```json\n%s\n```\n", text)
	}
	return nil
}

func (r *renderer) schemas() {
	r.line("## Types\n")
	for _, name := range slices.Sorted(maps.Keys(r.Components.Schemas)) {
		s := r.Components.Schemas[name]
		r.line("### %s\n", name)
		if s.Description != "" {
			r.line("%s\n", strings.TrimSpace(s.Description))
		}
		if len(s.Properties) == 0 {
			r.line("%s. %s\n", s.kind(), s.bounds())
			continue
		}
		r.fields(s)
	}
}

func (r *renderer) fields(s schema) {
	r.line("| field | type | meaning |\n| --- | --- | --- |")
	r.rows("", s)
	r.line("")
}

// rows writes the fields of an object, each followed by the fields of an object that is described in its place.
func (r *renderer) rows(prefix string, s schema) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := s.Properties[name]
		optional := ""
		if !slices.Contains(s.Required, name) {
			optional = " (optional)"
		}
		name = prefix + name
		r.line("| `%s`%s | %s | %s |", name, optional, field.kind(), meaning(field, field.Description))
		if inner := field.inner(); inner != nil {
			if field.Items != nil {
				name += "[]"
			}
			r.rows(name+".", *inner)
		}
	}
}

// problems lists every type of problem, with the status and the reason of the response that documents it.
func (r *renderer) problems() {
	r.line("## Problem types\n\nThe `type` of a problem is `https://deadletter.dev/problems/` and one of these names.\n")
	r.line("| type | meaning |\n| --- | --- |")
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(r.Components.Responses)) {
		answer := r.Components.Responses[name]
		for _, slug := range answer.ProblemTypes {
			if len(answer.ProblemTypes) == 1 || seen[slug] == "" {
				seen[slug] = oneLine(answer.Description)
			}
		}
	}
	for _, slug := range slices.Sorted(maps.Keys(seen)) {
		r.line("| `%s` | %s |", slug, seen[slug])
	}
}

func meaning(s schema, description string) string {
	text, bounds := oneLine(description), s.bounds()
	if bounds == "" {
		return text
	}
	return strings.TrimSpace(text + " " + strings.ToUpper(bounds[:1]) + bounds[1:] + ".")
}

func oneLine(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
