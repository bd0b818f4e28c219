package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// sources are where the values of a pod's environment and volumes come from.
type sources struct {
	pod     *corev1.Pod
	address netip.Addr
	// secret and configMap return the contents of an object in the pod's namespace.
	secret, configMap func(name string) (map[string]string, error)
}

// environment is a container's variables in the order of their definition.
type environment struct {
	names  []string
	values map[string]string
}

func (e *environment) set(name, value string) {
	if _, known := e.values[name]; !known {
		e.names = append(e.names, name)
	}

	e.values[name] = value
}

func (e *environment) lookup(name string) (string, bool) {
	value, found := e.values[name]

	return value, found
}

// list is the environment as a process takes it.
func (e *environment) list() []string {
	list := make([]string, len(e.names))
	for i, name := range e.names {
		list[i] = name + "=" + e.values[name]
	}

	return list
}

// environment resolves a container's variables. Those of envFrom come first; a later definition wins, and a value may
// refer to the variables before it.
func (s *sources) environment(container *corev1.Container) (*environment, error) {
	env := &environment{values: map[string]string{}}

	for _, from := range container.EnvFrom {
		if err := s.addAll(env, from); err != nil {
			return nil, err
		}
	}

	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			env.set(variable.Name, s.narrow(expand(variable.Value, env.lookup)))

			continue
		}

		value, found, err := s.value(variable.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", variable.Name, err)
		}

		if found {
			env.set(variable.Name, value)
		}
	}

	return env, nil
}

// narrow turns ":port", which means every address of the pod's own network, into that port of the pod's address: here
// all pods share one network.
func (s *sources) narrow(value string) string {
	port, isEvery := strings.CutPrefix(value, ":")
	if _, err := strconv.ParseUint(port, 10, 16); !isEvery || err != nil {
		return value
	}

	return net.JoinHostPort(s.address.String(), port)
}

func (s *sources) addAll(env *environment, from corev1.EnvFromSource) error {
	var (
		content  map[string]string
		err      error
		optional *bool
	)

	switch {
	case from.SecretRef != nil:
		content, err = s.secret(from.SecretRef.Name)
		optional = from.SecretRef.Optional
	case from.ConfigMapRef != nil:
		content, err = s.configMap(from.ConfigMapRef.Name)
		optional = from.ConfigMapRef.Optional
	}

	if err != nil && !(isTrue(optional) && apierrors.IsNotFound(err)) {
		return fmt.Errorf("envFrom: %w", err)
	}

	for _, key := range slices.Sorted(maps.Keys(content)) {
		env.set(from.Prefix+key, content[key])
	}

	return nil
}

// value resolves one reference; found is false for an optional one that leads nowhere.
func (s *sources) value(from *corev1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case from.SecretKeyRef != nil:
		content, err := s.secret(from.SecretKeyRef.Name)

		return pick(content, err, "Secret", from.SecretKeyRef.Name, from.SecretKeyRef.Key, from.SecretKeyRef.Optional)
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		content, err := s.configMap(ref.Name)

		return pick(content, err, "ConfigMap", ref.Name, ref.Key, ref.Optional)
	case from.FieldRef != nil:
		value, err := s.field(from.FieldRef.FieldPath)

		return value, err == nil, err
	default:
		return "", false, errors.New("only secretKeyRef, configMapKeyRef and fieldRef are supported")
	}
}

func pick(content map[string]string, err error, kind, name, key string, optional *bool) (string, bool, error) {
	value, found := content[key]

	switch {
	case isTrue(optional) && (err == nil || apierrors.IsNotFound(err)):
		return value, found, nil
	case err != nil:
		return "", false, err
	case !found:
		return "", false, fmt.Errorf("%s %q has no key %q", kind, name, key)
	default:
		return value, true, nil
	}
}

// field resolves a field of the pod itself.
func (s *sources) field(path string) (string, error) {
	if kind, key, found := strings.Cut(strings.TrimSuffix(path, "']"), "['"); found {
		switch kind {
		case "metadata.labels":
			return s.pod.Labels[key], nil
		case "metadata.annotations":
			return s.pod.Annotations[key], nil
		}
	}

	switch path {
	case "metadata.name":
		return s.pod.Name, nil
	case "metadata.namespace":
		return s.pod.Namespace, nil
	case "metadata.uid":
		return string(s.pod.UID), nil
	case "spec.nodeName":
		return nodeName, nil
	case "spec.serviceAccountName":
		return s.pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return s.address.String(), nil
	case "status.hostIP", "status.hostIPs":
		return hostAddress, nil
	default:
		return "", fmt.Errorf("the field %q is not supported", path)
	}
}

func isTrue(value *bool) bool { return value != nil && *value }

// expand replaces $(NAME) by the value of a variable. $$ is a dollar sign, which makes $$(NAME) a plain $(NAME), and a
// reference to nothing stays as it is.
func expand(text string, lookup func(string) (string, bool)) string {
	var out strings.Builder

	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)

		if !found {
			return out.String()
		}

		name, rest, closed := strings.Cut(after, ")")
		reference, opened := strings.CutPrefix(name, "(")

		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')

			text = after[1:]
		case opened && closed:
			value, known := lookup(reference)
			if !known {
				value = "$(" + reference + ")"
			}

			out.WriteString(value)

			text = rest
		default:
			out.WriteByte('$')

			text = after
		}
	}
}
