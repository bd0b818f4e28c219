package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

const (
	// Audience is what tokens must be made for. A token for the Kubernetes API itself is refused, so that this API can
	// never replay it there.
	Audience = "deadletter"
	// group is the API group of the virtual resources.
	group = "deadletter.dev"

	// allowedFor is how long a decision in the caller's favour holds; deniedFor one against, so that a new role is soon
	// felt; ownerFor how long the owner of a queue is remembered.
	allowedFor = 60 * time.Second
	deniedFor  = 10 * time.Second
	ownerFor   = 10 * time.Second

	// maxTokenBytes is above the size of any service account token.
	maxTokenBytes = 16 << 10
	// reviewTimeout bounds one decision.
	reviewTimeout = 5 * time.Second
	// maxCached bounds each cache.
	maxCached = 10_000

	// The client's own limits: above what cached decisions of many callers need, below what would hurt the API server.
	reviewsPerSecond = 50
	reviewBurst      = 200
)

// Owner is the Queue resource that declares a queue.
type Owner struct{ Namespace, Name string }

// Options says how to decide.
type Options struct {
	// REST reaches the Kubernetes API as a service account that may create TokenReviews and SubjectAccessReviews.
	REST *rest.Config
	// Namespace is where queues that no Queue resource declares are authorised, under their own name.
	Namespace string
	// OwnerOf returns the Queue resource that declares a queue; declared is false when there is none.
	OwnerOf func(ctx context.Context, queue string) (owner Owner, declared bool, err error)
	// Now is the clock of the caches; nil uses the system's.
	Now func() time.Time
}

// Kubernetes decides by TokenReview and SubjectAccessReview. It is safe for concurrent use.
type Kubernetes struct {
	tokens    authenticationclient.TokenReviewInterface
	access    authorizationclient.SubjectAccessReviewInterface
	namespace string
	ownerOf   func(ctx context.Context, queue string) (Owner, bool, error)

	callers   *cache[tokenHash, caller]
	decisions *cache[question, bool]
	owners    *cache[string, Owner]
	flights   singleflight.Group
}

// tokenHash stands for a token in the caches, which thus hold none.
type tokenHash [sha256.Size]byte

// caller is who a token belongs to; known is false for a token that is not valid.
type caller struct {
	known bool
	user  authenticationv1.UserInfo
}

// question is whether a caller may do something.
type question struct {
	token  tokenHash
	access Access
	owner  Owner
}

// NewKubernetes prepares a guard; it asks nothing yet.
func NewKubernetes(options Options) (*Kubernetes, error) {
	if options.Namespace == "" {
		return nil, errors.New("authentication needs the namespace of the Broker")
	}
	config := rest.CopyConfig(options.REST)
	config.QPS, config.Burst, config.Timeout = reviewsPerSecond, reviewBurst, reviewTimeout
	authentication, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for token reviews: %w", err)
	}
	authorization, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for access reviews: %w", err)
	}
	now := options.Now
	if now == nil {
		now = time.Now //nolint:forbidigo // the one place where the system's clock comes in
	}
	return &Kubernetes{
		tokens:    authentication.TokenReviews(),
		access:    authorization.SubjectAccessReviews(),
		namespace: options.Namespace,
		ownerOf:   options.OwnerOf,
		callers:   newCache[tokenHash, caller](now, maxCached),
		decisions: newCache[question, bool](now, maxCached),
		owners:    newCache[string, Owner](now, maxCached),
	}, nil
}

// Authorize returns nil when the bearer of token may do access, ErrUnauthenticated when the token is not valid for this
// API, ErrForbidden when RBAC does not allow it, and another error when that could not be found out.
func (k *Kubernetes) Authorize(ctx context.Context, token string, access Access) error {
	if token == "" || len(token) > maxTokenBytes {
		return ErrUnauthenticated
	}
	hash := tokenHash(sha256.Sum256([]byte(token)))
	who, err := shared(ctx, &k.flights, "token "+string(hash[:]), func(ctx context.Context) (caller, error) {
		return k.authenticate(ctx, hash, token)
	})
	if err != nil {
		return err
	}
	if !who.known {
		return ErrUnauthenticated
	}
	owner, err := k.owner(ctx, access.Queue)
	if err != nil {
		return err
	}
	asked := question{hash, access, owner}
	key := fmt.Sprintf("access %x %q", hash, []string{access.Verb, access.Subresource, owner.Namespace, owner.Name})
	allowed, err := shared(ctx, &k.flights, key, func(ctx context.Context) (bool, error) {
		return k.decide(ctx, asked, who.user)
	})
	if err != nil {
		return err
	}
	if !allowed {
		return ErrForbidden
	}
	return nil
}

// shared lets concurrent callers with the same question wait for one answer, which does not end with the first of them.
func shared[T any](ctx context.Context, flights *singleflight.Group, key string, f func(context.Context) (T, error),
) (T, error) {
	result := flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		return f(ctx)
	})
	select {
	case r := <-result:
		value, _ := r.Val.(T)
		return value, r.Err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("wait for authorisation: %w", ctx.Err())
	}
}

// authenticate finds out whose token it is.
func (k *Kubernetes) authenticate(ctx context.Context, hash tokenHash, token string) (caller, error) {
	if who, ok := k.callers.get(hash); ok {
		return who, nil
	}
	review, err := k.tokens.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return caller{}, fmt.Errorf("review token: %w", err)
	}
	// An authenticator that knows nothing of audiences returns none: its word is not enough.
	who := caller{
		known: review.Status.Authenticated && slices.Contains(review.Status.Audiences, Audience),
		user:  review.Status.User,
	}
	k.callers.put(hash, who, holdsFor(who.known))
	return who, nil
}

// decide asks RBAC.
func (k *Kubernetes) decide(ctx context.Context, asked question, user authenticationv1.UserInfo) (bool, error) {
	if allowed, ok := k.decisions.get(asked); ok {
		return allowed, nil
	}
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	review, err := k.access.Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: asked.owner.Namespace, Name: asked.owner.Name, Verb: asked.access.Verb,
				Group: group, Version: "*", Resource: "queues", Subresource: asked.access.Subresource,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review access: %w", err)
	}
	allowed := review.Status.Allowed && !review.Status.Denied
	k.decisions.put(asked, allowed, holdsFor(allowed))
	return allowed, nil
}

// owner is the resource by which a queue is authorised: the Queue that declares it, else its own name in the Broker's
// namespace. All queues together belong to all namespaces.
func (k *Kubernetes) owner(ctx context.Context, queue string) (Owner, error) {
	if queue == "" {
		return Owner{}, nil
	}
	if owner, ok := k.owners.get(queue); ok {
		return owner, nil
	}
	owner, declared, err := k.ownerOf(ctx, queue)
	if err != nil {
		return Owner{}, fmt.Errorf("find the owner of the queue: %w", err)
	}
	if !declared {
		owner = Owner{Namespace: k.namespace, Name: queue}
	}
	k.owners.put(queue, owner, ownerFor)
	return owner, nil
}

func holdsFor(favourable bool) time.Duration {
	if favourable {
		return allowedFor
	}
	return deniedFor
}
