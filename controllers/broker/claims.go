package broker

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
)

// claims remembers which Broker has which schema of which database. Its zero value is empty.
type claims struct {
	mu         sync.Mutex
	holders    map[string]*v1alpha1.Broker
	identities map[types.NamespacedName]string
}

// take gives an identity to a Broker, unless an older Broker holds it: then that one is returned. What the Broker held
// before is free again.
func (c *claims) take(broker *v1alpha1.Broker, identity string) (holder *v1alpha1.Broker) {
	c.mu.Lock()
	defer c.mu.Unlock()

	key := client.ObjectKeyFromObject(broker)
	if c.identities[key] != identity {
		c.drop(key)
	}

	held, found := c.holders[identity]
	if found && client.ObjectKeyFromObject(held) != key {
		if isOlder(held, broker) {
			return held
		}

		c.drop(client.ObjectKeyFromObject(held))
	}

	if c.holders == nil {
		c.holders = make(map[string]*v1alpha1.Broker)
		c.identities = make(map[types.NamespacedName]string)
	}

	c.holders[identity] = broker.DeepCopy()
	c.identities[key] = identity

	return nil
}

// release gives up what a Broker holds.
func (c *claims) release(broker types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.drop(broker)
}

func (c *claims) drop(broker types.NamespacedName) {
	if identity, found := c.identities[broker]; found {
		delete(c.identities, broker)
		delete(c.holders, identity)
	}
}

// holds tells whether a Broker has a claim, on whatever it be.
func (c *claims) holds(broker types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	_, found := c.identities[broker]

	return found
}

// isOlder orders Brokers by creation, and by name where that was in the same second.
func isOlder(a, b *v1alpha1.Broker) bool {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	) < 0
}

// claim makes sure that no two Brokers run over one schema: the first by creation has it.
func (r *Reconciler) claim(ctx context.Context, w *work) (status.Outcome, error) {
	// After a start this process does not know yet what older Brokers have.
	if err := r.claimForOlder(ctx, w.broker); err != nil {
		return status.Outcome{}, err
	}

	holder := r.claims.take(w.broker, w.identity)
	if holder == nil {
		w.accepted = true

		return status.Outcome{}, nil
	}

	r.Databases.Forget(w.key())

	// Whose it is, is nobody's business in another namespace.
	other := "a Broker of another namespace"
	if holder.Namespace == w.broker.Namespace {
		other = fmt.Sprintf("Broker %q", holder.Name)
	}

	message := fmt.Sprintf("Schema %q of this database belongs to %s. Choose another `schema` or another database.",
		w.config.Schema, other)
	w.pass.False(v1alpha1.ConditionAccepted, v1alpha1.ReasonConflict, message)

	return status.Stall(v1alpha1.ReasonConflict, message).Again(checkEvery), nil
}

func (r *Reconciler) claimForOlder(ctx context.Context, broker *v1alpha1.Broker) error {
	var brokers v1alpha1.BrokerList
	if err := r.Client.List(ctx, &brokers); err != nil {
		return fmt.Errorf("list Brokers: %w", err)
	}

	for i := range brokers.Items {
		other := &brokers.Items[i]
		if other.EffectiveSchema() != broker.EffectiveSchema() || !isOlder(other, broker) ||
			r.claims.holds(client.ObjectKeyFromObject(other)) {
			continue
		}

		_, identity, why, err := r.lookup(ctx, other)
		if err != nil {
			return err
		}

		if why == nil {
			r.claims.take(other, identity)
		}
	}

	return nil
}
