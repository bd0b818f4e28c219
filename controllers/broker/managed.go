package broker

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
)

const (
	postgresPort  int32 = 5432
	postgresUser  int64 = 999
	postgresGrace int64 = 120

	portPostgres = "postgres"

	volumeData   = "data"
	volumeRun    = "run"
	volumeTmp    = "tmp"
	volumeShared = "shm"

	// dataMount is the volume, dataDir the folder in it: a volume's root may hold a lost+found, which initdb refuses.
	dataMount = "/var/lib/postgresql/data"
	dataDir   = dataMount + "/pgdata"
)

// provision runs the database of a Broker that asks for one.
func (r *Reconciler) provision(ctx context.Context, w *work) (status.Outcome, error) {
	if !w.broker.IsManaged() {
		return status.Outcome{}, nil
	}

	if outcome, err := r.credentials(ctx, w); err != nil || !outcome.IsDone() {
		return outcome, err
	}

	for _, object := range []client.Object{newPostgresService(w.broker), newStatefulSet(w.broker)} {
		if _, err := r.apply(ctx, w.broker, object); err != nil {
			return refused(w, err)
		}
	}

	return status.Outcome{}, nil
}

// newPostgresService gives the one pod a name.
func newPostgresService(broker *v1alpha1.Broker) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: broker.Namespace,
			Name:      postgresName(broker),
			Labels:    objectLabels(broker, componentPostgres),
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone,
			Selector:  selectorLabels(broker, componentPostgres),
			Ports: []corev1.ServicePort{{
				Name: portPostgres, Port: postgresPort, TargetPort: intstr.FromString(portPostgres),
				Protocol: corev1.ProtocolTCP,
			}},
		},
	}
}

func newStatefulSet(broker *v1alpha1.Broker) *appsv1.StatefulSet {
	kept := appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	if broker.EffectiveDeletionPolicy() == v1alpha1.BrokerDeletionDelete {
		kept = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	}

	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: broker.Namespace,
			Name:      postgresName(broker),
			Labels:    objectLabels(broker, componentPostgres),
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas:    ptr.To[int32](1),
			ServiceName: postgresName(broker),
			Selector:    &metav1.LabelSelector{MatchLabels: selectorLabels(broker, componentPostgres)},
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: kept,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: objectLabels(broker, componentPostgres)},
				Spec:       newPostgresPod(broker),
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{newDataClaim(broker)},
		},
	}
}

func newDataClaim(broker *v1alpha1.Broker) corev1.PersistentVolumeClaim {
	storage := broker.Spec.Database.Managed.Storage

	claim := corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: volumeData, Labels: selectorLabels(broker, componentPostgres)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: broker.Spec.Database.Managed.EffectiveSize()},
			},
		},
	}
	if storage.StorageClassName != "" {
		claim.Spec.StorageClassName = &storage.StorageClassName
	}

	return claim
}

func newPostgresPod(broker *v1alpha1.Broker) corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(postgresGrace),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:        new(true),
			RunAsUser:           new(postgresUser),
			RunAsGroup:          new(postgresUser),
			FSGroup:             new(postgresUser),
			FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
			SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{newPostgresContainer(broker)},
		Volumes: []corev1.Volume{
			scratch(volumeRun, corev1.StorageMediumDefault),
			scratch(volumeTmp, corev1.StorageMediumDefault),
			// Parallel queries need more shared memory than the 64 MiB that container runtimes give.
			scratch(volumeShared, corev1.StorageMediumMemory),
		},
	}
}

func scratch(name string, medium corev1.StorageMedium) corev1.Volume {
	return corev1.Volume{
		Name:         name,
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}},
	}
}

func newPostgresContainer(broker *v1alpha1.Broker) corev1.Container {
	return corev1.Container{
		Name:  componentPostgres,
		Image: broker.Spec.Database.Managed.EffectiveImage(),
		Env: []corev1.EnvVar{
			fromSecret("POSTGRES_USER", source{postgresName(broker), usernameKey}),
			fromSecret("POSTGRES_PASSWORD", source{postgresName(broker), passwordKey}),
			fromSecret("POSTGRES_DB", source{postgresName(broker), databaseKey}),
			{Name: "PGDATA", Value: dataDir},
		},
		Ports: []corev1.ContainerPort{{
			Name: portPostgres, ContainerPort: postgresPort, Protocol: corev1.ProtocolTCP,
		}},
		Resources: broker.Spec.Database.Managed.EffectiveResources(),
		// Recovery after a crash takes as long as it takes; there is no liveness probe that could cut it short.
		StartupProbe:    postgresProbe(2, 900),
		ReadinessProbe:  postgresProbe(5, 3),
		SecurityContext: restricted(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeData, MountPath: dataMount},
			{Name: volumeRun, MountPath: "/var/run/postgresql"},
			{Name: volumeTmp, MountPath: "/tmp"},
			{Name: volumeShared, MountPath: "/dev/shm"},
		},
	}
}

// postgresProbe asks over TCP: while the image initialises a database, it listens on the socket only.
func postgresProbe(periodSeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{
			Command: []string{"pg_isready", "--host=127.0.0.1", "--port=5432", "--username=" + product, "--dbname=" + product},
		}},
		PeriodSeconds: periodSeconds, TimeoutSeconds: 5, FailureThreshold: failures,
	}
}

// restricted is what the Pod Security Standard of that name asks of a container, and a root file system that stays as
// the image has it.
func restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		RunAsNonRoot:             new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func fromSecret(name string, from source) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: from.secretName},
			Key:                  from.key,
		},
	}}
}
