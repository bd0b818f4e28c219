package auth_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"deadletter.dev/deadletter/internal/kubetest"
	"deadletter.dev/deadletter/internal/queueapi/auth"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// cluster is a namespace of a real Kubernetes API with a guard in front of it.
type cluster struct {
	t         *testing.T
	client    *kubernetes.Clientset
	rest      *rest.Config
	namespace string
	guard     *auth.Kubernetes
	// skip moves the guard's clock on.
	skip atomic.Int64
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	config := kubetest.Start(t)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, client: client, rest: config, namespace: kubetest.Namespace(t, config)}
	c.guard = c.newGuard(config)
	return c
}

func (c *cluster) newGuard(config *rest.Config) *auth.Kubernetes {
	c.t.Helper()
	guard, err := auth.NewKubernetes(auth.Options{
		REST: config, Namespace: c.namespace,
		OwnerOf: func(_ context.Context, queue string) (auth.Owner, bool, error) {
			return auth.Owner{Namespace: "elsewhere", Name: "declared-as"}, queue == "declared", nil
		},
		Now: func() time.Time { return time.Now().Add(time.Duration(c.skip.Load())) },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return guard
}

// token makes a service account, and a token of it for these audiences.
func (c *cluster) token(name string, audiences ...string) string {
	c.t.Helper()
	accounts := c.client.CoreV1().ServiceAccounts(c.namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(c.t.Context(), account, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	issued, err := accounts.CreateToken(c.t.Context(), name, request, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return issued.Status.Token
}

// allow binds a rule to a service account and returns how to take it back.
func (c *cluster) allow(account string, rule rbacv1.PolicyRule) (revoke func()) {
	c.t.Helper()
	rule.APIGroups = []string{"deadletter.dev"}
	meta := metav1.ObjectMeta{GenerateName: "test-"}
	roles := c.client.RbacV1().Roles(c.namespace)
	role, err := roles.Create(c.t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}},
		metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	bindings := c.client.RbacV1().RoleBindings(c.namespace)
	binding, err := bindings.Create(c.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: c.namespace, Name: account}},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return func() {
		if err := bindings.Delete(c.t.Context(), binding.Name, metav1.DeleteOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// awaitAnswer asks with fresh caches until the answer is as wanted: RBAC reaches the authoriser a moment after it was
// stored.
func (c *cluster) awaitAnswer(token string, access auth.Access, want error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		got := c.newGuard(c.rest).Authorize(ctx, token, access)
		if errors.Is(got, want) {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			c.t.Fatalf("%+v: %v, want %v", access, got, want)
		}
	}
}

var (
	send    = auth.Access{Verb: "create", Subresource: "messages", Queue: "orders"}
	receive = auth.Access{Verb: "get", Subresource: "messages", Queue: "orders"}
	replay  = auth.Access{Verb: "update", Subresource: "deadletters", Queue: "orders"}
)

func TestRBACDecides(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	token := c.token("producer", auth.Audience)
	c.allow("producer", rbacv1.PolicyRule{
		Resources: []string{"queues/messages"}, Verbs: []string{"create"}, ResourceNames: []string{"orders"},
	})
	c.awaitAnswer(token, send, nil)
	refused := []auth.Access{
		receive, replay,
		{Verb: "create", Subresource: "messages", Queue: "other"},
		{Verb: "create", Subresource: "messages", Queue: "declared"},
		{Verb: "create", Subresource: "deadletters", Queue: "orders"},
		{Verb: "get", Queue: "orders"},
		{Verb: "list"},
	}
	for _, access := range refused {
		if err := c.guard.Authorize(t.Context(), token, access); !errors.Is(err, auth.ErrForbidden) {
			t.Errorf("%+v: %v, want it forbidden", access, err)
		}
	}
}

func TestDeclaredQueueIsAuthorisedByItsResource(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	token := c.token("consumer", auth.Audience)
	guard, err := auth.NewKubernetes(auth.Options{
		REST: c.rest, Namespace: "brokers",
		OwnerOf: func(context.Context, string) (auth.Owner, bool, error) {
			return auth.Owner{Namespace: c.namespace, Name: "by-resource"}, true, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.allow("consumer", rbacv1.PolicyRule{
		Resources: []string{"queues/messages"}, Verbs: []string{"get"}, ResourceNames: []string{"by-resource"},
	})
	c.awaitAnswer(token, auth.Access{Verb: "get", Subresource: "messages", Queue: "by-resource"}, nil)
	if err := guard.Authorize(t.Context(), token, receive); err != nil {
		t.Errorf("the role on the Queue resource does not count: %v", err)
	}
}

func TestTokensOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.allow("wrong-audience", rbacv1.PolicyRule{Resources: []string{"queues/messages"}, Verbs: []string{"*"}})
	tokens := map[string]string{
		"for the Kubernetes API": c.token("wrong-audience"),
		"for another audience":   c.token("other-audience", "vault"),
		"garbage":                "garbage",
		"empty":                  "",
		"huge":                   string(make([]byte, 20<<10)),
	}
	for name, token := range tokens {
		if err := c.guard.Authorize(t.Context(), token, send); !errors.Is(err, auth.ErrUnauthenticated) {
			t.Errorf("%s: %v, want it unauthenticated", name, err)
		}
	}
}

func TestDecisionsHoldForAMinuteAtMost(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	token := c.token("worker", auth.Audience)
	revoke := c.allow("worker", rbacv1.PolicyRule{Resources: []string{"queues/messages"}, Verbs: []string{"get"}})
	c.awaitAnswer(token, receive, nil)
	if err := c.guard.Authorize(t.Context(), token, receive); err != nil {
		t.Fatal(err)
	}
	revoke()
	c.awaitAnswer(token, receive, auth.ErrForbidden)
	if err := c.guard.Authorize(t.Context(), token, receive); err != nil {
		t.Errorf("within the minute: %v", err)
	}
	c.skip.Store(int64(61 * time.Second))
	if err := c.guard.Authorize(t.Context(), token, receive); !errors.Is(err, auth.ErrForbidden) {
		t.Errorf("after a minute: %v, want it forbidden", err)
	}
	c.allow("worker", rbacv1.PolicyRule{Resources: []string{"queues/messages"}, Verbs: []string{"get"}})
	c.awaitAnswer(token, receive, nil)
	c.skip.Store(int64(72 * time.Second))
	if err := c.guard.Authorize(t.Context(), token, receive); err != nil {
		t.Errorf("a refusal outlives the role that ends it: %v", err)
	}
}

func TestUndecidedWhenKubernetesDoesNotAnswer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	guard := c.newGuard(&rest.Config{Host: "http://127.0.0.1:1"})
	err := guard.Authorize(t.Context(), "token", send)
	if err == nil || errors.Is(err, auth.ErrForbidden) || errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("undecided: %v", err)
	}
}
