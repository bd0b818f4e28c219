package broker

import (
	"cmp"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"deadletter.dev/deadletter/api/v1alpha1"
)

const (
	apiPort int32 = 8080
	apiUser int64 = 65532

	portHTTP = "http"

	// After it is told to stop, a pod serves on until every proxy has heard of it; then it drains, for which the queue API
	// takes up to 25 s; the rest is room to close its connections.
	unhookSeconds int64 = 5
	graceSeconds  int64 = unhookSeconds + 25 + 10
)

// newDeployment is the queue API. Its pods differ when the database's URL does.
func newDeployment(broker *v1alpha1.Broker, from source, fingerprint, image string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: broker.Namespace,
			Name:      apiName(broker),
			Labels:    objectLabels(broker, componentAPI),
		},
		Spec: appsv1.DeploymentSpec{
			Replicas:             new(broker.EffectiveReplicas()),
			RevisionHistoryLimit: ptr.To[int32](3),
			Selector:             &metav1.LabelSelector{MatchLabels: selectorLabels(broker, componentAPI)},
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxUnavailable: new(intstr.FromInt32(0)),
					MaxSurge:       new(intstr.FromInt32(1)),
				},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      merged(broker.Spec.API.PodTemplate.Labels, objectLabels(broker, componentAPI)),
					Annotations: merged(broker.Spec.API.PodTemplate.Annotations, map[string]string{annotationDatabase: fingerprint}),
				},
				Spec: newAPIPod(broker, from, image),
			},
		},
	}
}

// merged adds the operator's entries to the user's; the operator's win.
func merged(users, operators map[string]string) map[string]string {
	all := make(map[string]string, len(users)+len(operators))
	maps.Copy(all, users)
	maps.Copy(all, operators)

	return all
}

func newAPIPod(broker *v1alpha1.Broker, from source, image string) corev1.PodSpec {
	overrides := broker.Spec.API.PodTemplate

	return corev1.PodSpec{
		ServiceAccountName:            apiName(broker),
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(graceSeconds),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			RunAsUser:      new(apiUser),
			RunAsGroup:     new(apiUser),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers:                []corev1.Container{newAPIContainer(broker, from, image)},
		NodeSelector:              overrides.NodeSelector,
		Tolerations:               overrides.Tolerations,
		TopologySpreadConstraints: spread(broker),
		PriorityClassName:         overrides.PriorityClassName,
		ImagePullSecrets:          overrides.ImagePullSecrets,
	}
}

// spread completes the user's constraints with the pods they are about; without any, pods prefer different nodes.
func spread(broker *v1alpha1.Broker) []corev1.TopologySpreadConstraint {
	constraints := slices.Clone(broker.Spec.API.PodTemplate.TopologySpreadConstraints)
	if len(constraints) == 0 {
		constraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		}}
	}

	for i := range constraints {
		if constraints[i].LabelSelector == nil {
			constraints[i].LabelSelector = &metav1.LabelSelector{MatchLabels: selectorLabels(broker, componentAPI)}
		}
	}

	return constraints
}

func newAPIContainer(broker *v1alpha1.Broker, from source, image string) corev1.Container {
	return corev1.Container{
		Name:  componentAPI,
		Image: cmp.Or(broker.Spec.API.Image, image),
		Args:  []string{"api"},
		Env: []corev1.EnvVar{
			fromSecret("DEADLETTER_DATABASE_URL", from),
			{Name: "DEADLETTER_SCHEMA", Value: broker.EffectiveSchema()},
			// Every address of the pod: of either family, and the loopback one that kubectl port-forward dials.
			{Name: "DEADLETTER_LISTEN", Value: fmt.Sprintf(":%d", apiPort)},
			{Name: "DEADLETTER_UNDECLARED_QUEUES", Value: strings.ToLower(string(broker.EffectiveUndeclaredQueues()))},
			{Name: "DEADLETTER_AUTH", Value: "none"},
		},
		Ports: []corev1.ContainerPort{{
			Name: portHTTP, ContainerPort: apiPort, Protocol: corev1.ProtocolTCP,
		}},
		Resources:      broker.EffectiveAPIResources(),
		ReadinessProbe: apiProbe("/readyz", 5, 2),
		LivenessProbe:  apiProbe("/healthz", 10, 6),
		Lifecycle: &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: unhookSeconds}},
		},
		SecurityContext: restricted(),
	}
}

func apiProbe(path string, periodSeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(portHTTP)},
		},
		PeriodSeconds: periodSeconds, TimeoutSeconds: 3, FailureThreshold: failures,
	}
}

// fingerprintRounds makes guessing a password from its fingerprint, which everybody who may read pods can see, as slow
// as can be borne at every reconciliation.
const fingerprintRounds = 20_000

// fingerprint changes with the URL, and says nothing of it.
func fingerprint(broker *v1alpha1.Broker, url string) (string, error) {
	key, err := pbkdf2.Key(sha256.New, url, []byte(broker.UID), fingerprintRounds, 16)
	if err != nil {
		return "", fmt.Errorf("fingerprint the database's URL: %w", err)
	}

	return hex.EncodeToString(key), nil
}
