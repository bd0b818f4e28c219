package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Identity returns a hash of the server, database and schema that a URL leads to: two URLs with the same identity lead
// to the same tables, whichever user and parameters they carry. Resolve makes the full name of a host; nil keeps it.
// An error means that databaseURL is no connection string.
func Identity(databaseURL, schema string, resolve func(host string) string) (string, error) {
	// A line break that an editor or `kubectl create --from-file` left would become part of the database's name.
	if databaseURL == "" || strings.TrimSpace(databaseURL) != databaseURL {
		return "", errDatabaseURL
	}
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return "", errDatabaseURL
	}
	address := func(host string, port uint16) string {
		host = strings.TrimSuffix(strings.ToLower(host), ".")
		if resolve != nil {
			host = resolve(host)
		}
		return host + "\x00" + strconv.Itoa(int(port))
	}
	servers := []string{address(config.Host, config.Port)}
	for _, fallback := range config.Fallbacks {
		servers = append(servers, address(fallback.Host, fallback.Port))
	}
	slices.Sort(servers)
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", slices.Compact(servers), config.Database, schema))
	return hex.EncodeToString(sum[:]), nil
}
