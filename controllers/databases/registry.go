// Package databases keeps the operator's connection pools: one per Broker, shared by all reconcilers.
package databases

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"deadletter.dev/deadletter/internal/store"
)

// The operator's work is a few short statements at a time.
const (
	poolSize        = 4
	applicationName = "deadletter operator"
)

// ErrNotConnected means that a Broker's database cannot be used yet: it was never reached, or its schema is not at this
// release's version.
var ErrNotConnected = errors.New("the Broker has no usable database yet")

// Config says where a Broker's tables are.
type Config struct {
	// URL is the connection URI, with its password.
	URL string
	// Schema is the Postgres schema.
	Schema string
}

func (c Config) hash() [sha256.Size]byte {
	return sha256.Sum256([]byte(strconv.Quote(c.URL) + strconv.Quote(c.Schema)))
}

// Options changes how databases are reached. The zero value is for production.
type Options struct {
	// Dial replaces the network, for operators that run outside the cluster.
	Dial DialFunc
	// StatementTimeout bounds a statement; 0 means the store's default.
	StatementTimeout time.Duration
}

// Registry holds the pools. It is safe for concurrent use.
type Registry struct {
	options Options

	mu      sync.RWMutex
	entries map[types.NamespacedName]*entry
	closing sync.WaitGroup
}

type entry struct {
	hash   [sha256.Size]byte
	store  *store.Store
	usable bool
}

// New returns an empty registry.
func New(options Options) *Registry {
	return &Registry{options: options, entries: make(map[types.NamespacedName]*entry)}
}

// Connect makes sure that the Broker has a pool for config, replacing one for another config, and that the database
// answers. [Registry.Get] returns the pool once the schema is at this release's version; until then Connect returns a
// *[store.SchemaError], and is called again after the migration.
func (r *Registry) Connect(ctx context.Context, broker types.NamespacedName, config Config) (*store.Store, error) {
	current, err := r.open(ctx, broker, config)
	if err != nil {
		return nil, err
	}

	err = current.store.CheckSchema(ctx)

	r.mu.Lock()
	defer r.mu.Unlock()

	switch {
	case err == nil:
		current.usable = true
	case errors.Is(err, store.ErrSchema):
		current.usable = false
	}
	// A database that is away for a moment keeps its pool: whoever uses it sees the same error.

	if err != nil {
		return nil, err
	}

	return current.store, nil
}

// open returns the Broker's entry for config.
func (r *Registry) open(ctx context.Context, broker types.NamespacedName, config Config) (*entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	hash := config.hash()

	existing, found := r.entries[broker]
	if found && existing.hash == hash {
		return existing, nil
	}

	// The pool outlives the call.
	opened, err := store.Open(context.WithoutCancel(ctx), store.Options{
		DatabaseURL:      config.URL,
		Schema:           config.Schema,
		MaxConns:         poolSize,
		StatementTimeout: r.options.StatementTimeout,
		ApplicationName:  applicationName,
		DialFunc:         dialerOf(r.options.Dial, broker.Namespace),
	})
	if err != nil {
		return nil, err
	}

	if found {
		r.release(existing)
	}

	fresh := &entry{hash: hash, store: opened}
	r.entries[broker] = fresh

	return fresh, nil
}

// release closes a pool as soon as its last user is done.
func (r *Registry) release(old *entry) {
	r.closing.Go(old.store.Close)
}

// Migrate brings the schema to this release's version.
func (r *Registry) Migrate(
	ctx context.Context, broker types.NamespacedName, config Config, progress func(version int, name string),
) (store.MigrateResult, error) {
	return store.Migrate(ctx, store.MigrateOptions{
		DatabaseURL: config.URL,
		Schema:      config.Schema,
		DialFunc:    dialerOf(r.options.Dial, broker.Namespace),
		Progress:    progress,
	})
}

// DropSchema removes the schema with all messages; see [store.DropSchema].
func (r *Registry) DropSchema(ctx context.Context, broker types.NamespacedName, config Config) (bool, error) {
	return store.DropSchema(ctx, store.MigrateOptions{
		DatabaseURL: config.URL,
		Schema:      config.Schema,
		DialFunc:    dialerOf(r.options.Dial, broker.Namespace),
	})
}

// Get returns the pool of a Broker whose database can be used, else [ErrNotConnected].
func (r *Registry) Get(broker types.NamespacedName) (*store.Store, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()

	if existing, found := r.entries[broker]; found && existing.usable {
		return existing.store, nil
	}

	return nil, fmt.Errorf("%w: %s", ErrNotConnected, broker)
}

// Connected goes through the Brokers whose databases can be used, as they are now, in order of their names.
func (r *Registry) Connected() iter.Seq2[types.NamespacedName, *store.Store] {
	r.mu.RLock()
	defer r.mu.RUnlock()

	usable := make(map[types.NamespacedName]*store.Store, len(r.entries))

	for broker, existing := range r.entries {
		if existing.usable {
			usable[broker] = existing.store
		}
	}

	return func(yield func(types.NamespacedName, *store.Store) bool) {
		for _, broker := range slices.SortedFunc(maps.Keys(usable), compareNames) {
			if !yield(broker, usable[broker]) {
				return
			}
		}
	}
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Forget drops a Broker and closes its pool.
func (r *Registry) Forget(broker types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if existing, found := r.entries[broker]; found {
		delete(r.entries, broker)
		r.release(existing)
	}
}

// Close drops every Broker and waits until their pools are closed.
func (r *Registry) Close() {
	r.mu.Lock()

	for broker, existing := range r.entries {
		delete(r.entries, broker)
		r.release(existing)
	}

	r.mu.Unlock()

	r.closing.Wait()
}
