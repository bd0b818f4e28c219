// Package statustest checks that a status keeps the rules of kstatus, whichever state the object is in.
package statustest

import (
	"errors"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
)

const messageLimit = 1024

// Check returns every rule that the object's status breaks, the last one being that kstatus sees the wanted state.
func Check(object status.Object, want kstatus.Status) error {
	conditions := object.GetConditions()

	problems := []error{checkSummary(conditions)}

	for _, condition := range conditions {
		problems = append(problems, checkCondition(condition, object))
	}

	if object.GetObservedGeneration() > object.GetGeneration() {
		problems = append(problems, errors.New("status is about a generation that does not exist yet"))
	}

	return errors.Join(append(problems, checkComputed(object, want))...)
}

// checkSummary holds Ready, Reconciling and Stalled to each other.
func checkSummary(conditions []metav1.Condition) error {
	var (
		ready       = apimeta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
		reconciling = apimeta.FindStatusCondition(conditions, v1alpha1.ConditionReconciling)
		stalled     = apimeta.FindStatusCondition(conditions, v1alpha1.ConditionStalled)
	)

	switch {
	case ready == nil:
		return errors.New("there is no condition Ready")
	case reconciling != nil && stalled != nil:
		return errors.New("both Reconciling and Stalled are there")
	case ready.Status == metav1.ConditionTrue && (reconciling != nil || stalled != nil):
		return errors.New("condition Ready is True beside Reconciling or Stalled")
	case ready.Status != metav1.ConditionTrue && reconciling == nil && stalled == nil:
		return errors.New("condition Ready is not True, and neither Reconciling nor Stalled says why")
	default:
		return nil
	}
}

func checkCondition(condition metav1.Condition, object status.Object) error {
	var problems []error

	fail := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("condition "+condition.Type+" "+format, args...))
	}

	switch condition.Type {
	case v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled:
		if condition.Status != metav1.ConditionTrue {
			fail("is %s: it must be True or absent", condition.Status)
		}
	case v1alpha1.ConditionReady:
		if condition.ObservedGeneration != object.GetObservedGeneration() {
			fail("is about generation %d, status about %d", condition.ObservedGeneration, object.GetObservedGeneration())
		}
	}

	if condition.ObservedGeneration < 1 || condition.ObservedGeneration > object.GetObservedGeneration() {
		fail("is about generation %d, status about %d", condition.ObservedGeneration, object.GetObservedGeneration())
	}

	if condition.Reason == "" || condition.LastTransitionTime.IsZero() {
		fail("lacks a reason or a time")
	}

	if len(condition.Message) > messageLimit {
		fail("has a message of %d bytes", len(condition.Message))
	}

	return errors.Join(problems...)
}

func checkComputed(object status.Object, want kstatus.Status) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("convert the object: %w", err)
	}

	result, err := kstatus.Compute(&unstructured.Unstructured{Object: content})
	if err != nil {
		return fmt.Errorf("compute kstatus: %w", err)
	}

	if result.Status != want {
		return fmt.Errorf("kstatus is %s (%s), want %s", result.Status, result.Message, want)
	}

	return nil
}
