package main

import (
	"context"
	"fmt"

	"deadletter.dev/deadletter/internal/store"
)

type migrateCommand struct {
	databaseFlags
}

// Run migrates and says what it did.
func (c migrateCommand) Run(ctx context.Context) error {
	url, err := c.url()
	if err != nil {
		return err
	}
	result, err := store.Migrate(ctx, store.MigrateOptions{
		DatabaseURL: url,
		Pooler:      c.DatabasePooler,
		Schema:      c.Schema,
		Progress:    func(version int, name string) { fmt.Printf("applying migration %d (%s)\n", version, name) },
	})
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if result.From == result.To {
		fmt.Printf("schema %s is at version %d already\n", c.Schema, result.To)
		return nil
	}
	fmt.Printf("schema %s went from version %d to version %d\n", c.Schema, result.From, result.To)
	return nil
}
