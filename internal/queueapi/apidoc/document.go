package main

import (
	"fmt"
	"strings"
)

// document is the part of an OpenAPI document that the reference shows.
type document struct {
	Info       info                            `json:"info"`
	Tags       []tag                           `json:"tags"`
	Paths      map[string]map[string]operation `json:"-"`
	Components struct {
		Schemas    map[string]schema    `json:"schemas"`
		Parameters map[string]parameter `json:"parameters"`
		Responses  map[string]response  `json:"responses"`
	} `json:"components"`
}

type info struct {
	Title       string `json:"title"`
	Summary     string `json:"summary"`
	Description string `json:"description"`
}

type tag struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

type operation struct {
	Tags        []string            `json:"tags"`
	Summary     string              `json:"summary"`
	Description string              `json:"description"`
	Parameters  []parameter         `json:"parameters"`
	RequestBody *body               `json:"requestBody"`
	Responses   map[string]response `json:"responses"`
}

type parameter struct {
	Ref         string `json:"$ref"`
	Name        string `json:"name"`
	In          string `json:"in"`
	Description string `json:"description"`
	Schema      schema `json:"schema"`
}

type body struct {
	Required bool             `json:"required"`
	Content  map[string]media `json:"content"`
}

type media struct {
	Schema   schema             `json:"schema"`
	Examples map[string]example `json:"examples"`
}

type example struct {
	Summary string `json:"summary"`
	Value   any    `json:"value"`
}

type response struct {
	Ref          string           `json:"$ref"`
	Description  string           `json:"description"`
	Content      map[string]media `json:"content"`
	ProblemTypes []string         `json:"x-problem-types"`
}

type schema struct {
	Ref         string            `json:"$ref"`
	Type        any               `json:"type"`
	Format      string            `json:"format"`
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Items       *schema           `json:"items"`
	OneOf       []schema          `json:"oneOf"`
	AllOf       []schema          `json:"allOf"`
	Enum        []any             `json:"enum"`
	Const       any               `json:"const"`
	Default     any               `json:"default"`
	Minimum     *float64          `json:"minimum"`
	Maximum     *float64          `json:"maximum"`
	MinItems    *int              `json:"minItems"`
	MaxItems    *int              `json:"maxItems"`
	MinLength   *int              `json:"minLength"`
	MaxLength   *int              `json:"maxLength"`
}

// lastPart is the name that a reference ends with.
func lastPart(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

// kind says in words what a value may be.
func (s schema) kind() string {
	switch {
	case s.Ref != "":
		return link(lastPart(s.Ref))
	case len(s.AllOf) == 1:
		return s.AllOf[0].kind()
	case len(s.OneOf) > 0:
		kinds := make([]string, len(s.OneOf))
		for i, option := range s.OneOf {
			kinds[i] = option.kind()
		}
		return strings.Join(kinds, " or ")
	case s.Items != nil:
		return "array of " + s.Items.kind()
	case s.Const != nil:
		return fmt.Sprintf("`%v`", s.Const)
	case len(s.Enum) > 0:
		values := make([]string, len(s.Enum))
		for i, value := range s.Enum {
			values[i] = fmt.Sprintf("`%v`", value)
		}
		return strings.Join(values, ", ")
	case s.Format == "date-time":
		return strings.Replace(s.typeName(), "string", "time", 1)
	default:
		return s.typeName()
	}
}

// inner is the object that a value is, may be, or is an array of, when it is described in this place and not by a name.
func (s schema) inner() *schema {
	switch {
	case len(s.Properties) > 0:
		return &s
	case s.Items != nil:
		return s.Items.inner()
	}
	for _, option := range s.OneOf {
		if inner := option.inner(); inner != nil {
			return inner
		}
	}
	return nil
}

func (s schema) typeName() string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		names := make([]string, len(t))
		for i, name := range t {
			names[i] = fmt.Sprint(name)
		}
		return strings.Join(names, " or ")
	default:
		return "any"
	}
}

// bounds says in words what limits a value has.
func (s schema) bounds() string {
	var parts []string
	span := func(unit string, least, most *int) {
		switch {
		case least != nil && most != nil:
			parts = append(parts, fmt.Sprintf("%d to %d %s", *least, *most, unit))
		case most != nil:
			parts = append(parts, fmt.Sprintf("at most %d %s", *most, unit))
		case least != nil && *least > 0 && unit == "characters":
			parts = append(parts, "not empty")
		}
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		parts = append(parts, fmt.Sprintf("%.0f to %.0f", *s.Minimum, *s.Maximum))
	case s.Minimum != nil:
		parts = append(parts, fmt.Sprintf("at least %.0f", *s.Minimum))
	}
	span("items", s.MinItems, s.MaxItems)
	span("characters", s.MinLength, s.MaxLength)
	if s.Default != nil {
		parts = append(parts, fmt.Sprintf("default `%v`", s.Default))
	}
	return strings.Join(parts, "; ")
}

func link(name string) string { return "[" + name + "](#" + strings.ToLower(name) + ")" }
