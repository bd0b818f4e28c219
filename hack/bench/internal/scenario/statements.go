package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"deadletter.dev/deadletter/hack/bench/internal/load"
	"deadletter.dev/deadletter/hack/bench/internal/measure"
)

// recordStatements writes down what the product asked of Postgres, so that a raw loop can be held to the same.
func (b *Bench) recordStatements(ctx context.Context, site *site, loop load.Closed) error {
	statements, err := measure.TopStatements(ctx, site.conn, 20)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("statements-%d-clients-batch-%d.txt", loop.Clients, loop.Batch)
	return os.WriteFile(filepath.Join(b.Out, name), []byte(strings.Join(statements, "\n")+"\n"), 0o644)
}
