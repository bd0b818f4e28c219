package queueapi_test

import (
	"context"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/queueapi"
	"deadletter.dev/deadletter/internal/store"
)

// hookedBackend lets a test stand between the API and the real store. A nil hook is passed by.
type hookedBackend struct {
	queueapi.Backend

	// beforeGet and beforeEnqueue may fail the call.
	beforeGet, beforeEnqueue func() error
	// afterClaim sees what was claimed, before the API does.
	afterClaim func(claimed []message.Message)
}

func withHooks(hooks *hookedBackend) option {
	return func(options *queueapi.Options, _ *store.Options) { options.Backend = hooks }
}

// Get implements queueapi.Backend.
func (h *hookedBackend) Get(ctx context.Context, queue string, id int64) (message.Message, error) {
	if h.beforeGet != nil {
		if err := h.beforeGet(); err != nil {
			return message.Message{}, err
		}
	}
	return h.Backend.Get(ctx, queue, id)
}

// Enqueue implements queueapi.Backend.
func (h *hookedBackend) Enqueue(ctx context.Context, queue string, messages []store.NewMessage,
) ([]message.Message, error) {
	if h.beforeEnqueue != nil {
		if err := h.beforeEnqueue(); err != nil {
			return nil, err
		}
	}
	return h.Backend.Enqueue(ctx, queue, messages)
}

// Claim implements queueapi.Backend.
func (h *hookedBackend) Claim(ctx context.Context, queue string, params store.ClaimParams) ([]message.Message, error) {
	claimed, err := h.Backend.Claim(ctx, queue, params)
	if h.afterClaim != nil && err == nil {
		h.afterClaim(claimed)
	}
	return claimed, err
}
