package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"deadletter.dev/deadletter/internal/store"
)

// databaseFlags say where the messages are.
type databaseFlags struct {
	DatabaseURL     string       `help:"Postgres connection URL. A password in a flag is seen by every user of the machine: prefer the variable or the file." placeholder:"URL"`                                                                                                                                                           //nolint:lll // struct tag
	DatabaseURLFile string       `help:"File that holds the Postgres connection URL; takes the place of --database-url."                                     placeholder:"FILE" type:"path"`                                                                                                                                               //nolint:lll // struct tag
	DatabasePooler  store.Pooler `default:"none" enum:"none,transaction,transaction-prepared" help:"What the URL leads to: none for Postgres; transaction for a pooler that lends sessions for a transaction each (PgBouncer, pool_mode = transaction); transaction-prepared for one that keeps prepared statements, too (from 1.21 on)."` //nolint:lll // struct tag
	Schema          string       `default:"deadletter"                                                                                                       help:"Postgres schema that holds the tables."`                                                                                                                                //nolint:lll // struct tag
}

var errNoDatabase = errors.New("no database: set DEADLETTER_DATABASE_URL, --database-url-file or --database-url")

// url returns the connection URL without ever putting it into an error.
func (f databaseFlags) url() (string, error) {
	url := f.DatabaseURL
	if f.DatabaseURLFile != "" {
		content, err := os.ReadFile(f.DatabaseURLFile)
		if err != nil {
			return "", fmt.Errorf("read --database-url-file: %w", err)
		}
		url = strings.TrimSpace(string(content))
	}
	if url == "" {
		return "", errNoDatabase
	}
	return url, nil
}

// Validate is called by kong after parsing.
func (f databaseFlags) Validate() error {
	if err := store.ValidateSchemaName(f.Schema); err != nil {
		return fmt.Errorf("--schema: %w", err)
	}
	return nil
}
