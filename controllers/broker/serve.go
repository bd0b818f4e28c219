package broker

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
)

// serve runs the queue API over the database.
func (r *Reconciler) serve(ctx context.Context, w *work) (status.Outcome, error) {
	version, err := fingerprint(w.broker, w.config.URL)
	if err != nil {
		return status.Outcome{}, err
	}

	for _, object := range []client.Object{newServiceAccount(w.broker), newAPIService(w.broker)} {
		if _, err := r.apply(ctx, w.broker, object); err != nil {
			return refused(w, err)
		}
	}

	w.generation, err = r.apply(ctx, w.broker, newDeployment(w.broker, w.source, version, r.Image))
	if err != nil {
		return refused(w, err)
	}

	if err := r.protect(ctx, w.broker); err != nil {
		return refused(w, err)
	}

	w.broker.Status.Endpoint = endpoint(w.broker)
	w.broker.Status.Selector = labels.SelectorFromSet(selectorLabels(w.broker, componentAPI)).String()

	return status.Outcome{}, nil
}

// refused tells what is the spec's fault from what may pass.
func refused(w *work, err error) (status.Outcome, error) {
	if foreign := (*foreignError)(nil); errors.As(err, &foreign) {
		message := fmt.Sprintf("%s %q exists and was not made for this Broker. Delete it, or choose another name.",
			foreign.kind, foreign.name)
		w.reject(v1alpha1.ReasonConflict, message)

		return status.Stall(v1alpha1.ReasonConflict, message).Again(checkEvery), nil
	}

	if leaving := (*leavingError)(nil); errors.As(err, &leaving) {
		message := fmt.Sprintf("%s %q of an earlier Broker is being deleted.", leaving.kind, leaving.name)

		return status.Wait(leavingPoll, v1alpha1.ReasonProgressing, message), nil
	}

	if apierrors.IsInvalid(err) {
		message := "The Kubernetes API refuses what the spec makes: " + err.Error()
		w.reject(v1alpha1.ReasonInvalid, message)

		return status.Stall(v1alpha1.ReasonInvalid, message), nil
	}

	return status.Outcome{}, err
}

// reject shows that the spec is at fault.
func (w *work) reject(reason, message string) {
	w.accepted = false
	w.pass.False(v1alpha1.ConditionAccepted, reason, message)
}

// newServiceAccount is the queue API's identity. It has no rights.
func newServiceAccount(broker *v1alpha1.Broker) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: broker.Namespace,
			Name:      apiName(broker),
			Labels:    objectLabels(broker, componentAPI),
		},
		AutomountServiceAccountToken: new(false),
	}
}

func newAPIService(broker *v1alpha1.Broker) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: broker.Namespace,
			Name:      apiName(broker),
			Labels:    objectLabels(broker, componentAPI),
		},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: selectorLabels(broker, componentAPI),
			Ports: []corev1.ServicePort{{
				Name: portHTTP, Port: 80, TargetPort: intstr.FromString(portHTTP), Protocol: corev1.ProtocolTCP,
				AppProtocol: new(portHTTP),
			}},
		},
	}
}

// protect lets nodes be drained one pod of the queue API at a time. A single pod is not protected: nobody could drain
// its node.
func (r *Reconciler) protect(ctx context.Context, broker *v1alpha1.Broker) error {
	budget := newDisruptionBudget(broker)
	if broker.EffectiveReplicas() > 1 {
		_, err := r.apply(ctx, broker, budget)

		return err
	}

	return r.remove(ctx, broker, budget)
}

func newDisruptionBudget(broker *v1alpha1.Broker) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: broker.Namespace,
			Name:      apiName(broker),
			Labels:    objectLabels(broker, componentAPI),
		},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             new(intstr.FromInt32(1)),
			Selector:                   &metav1.LabelSelector{MatchLabels: selectorLabels(broker, componentAPI)},
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}
