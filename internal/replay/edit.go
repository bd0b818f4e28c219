package replay

import (
	"errors"

	"deadletter.dev/deadletter/internal/store"
)

var errNoTransforms = errors.New("transforms are not known")

// editOf is the edit that a run makes of payloads; nil for none.
func editOf(plan store.RunTransform) (store.Edit, error) {
	if plan == (store.RunTransform{}) {
		return nil, nil //nolint:nilnil // no edit is an answer
	}
	return nil, errNoTransforms
}
