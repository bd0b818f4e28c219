package pgtest

import (
	"maps"
	"slices"
	"strconv"
)

// Options describes a server. The zero value is a fast server that forgets everything when it stops.
type Options struct {
	// Dir holds the data, the log and the connection details. Empty means a temporary folder removed by Stop.
	// A folder that already holds a stopped server starts it again, on the same port with the same password.
	Dir string
	// Durable keeps every acknowledged commit across Kill9, at the price of speed.
	Durable bool
	// Detach lets the server outlive the calling process. It needs Dir; [Attach] finds the server again.
	Detach bool
	// Settings are extra server parameters, such as "log_statement": "all".
	Settings map[string]string
}

// arguments renders the server's command line.
func (o Options) arguments(data, socketDir string, port int) []string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(port),
		"unix_socket_directories": socketDir,
		"max_connections":         "200",
		"log_line_prefix":         "%m [%p] %d ",
		"max_wal_size":            "2GB",
	}

	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		settings[name] = "off"
		if o.Durable {
			settings[name] = "on"
		}
	}

	maps.Copy(settings, o.Settings)

	args := []string{"-D", data}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}

	return args
}
