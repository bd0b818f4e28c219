// Command apidoc makes the HTTP API's reference, docs/http-api.md, from its OpenAPI document, so that the two cannot
// drift apart.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"deadletter.dev/deadletter/internal/queueapi"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "apidoc:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, the file to write; got %d", len(args))
	}
	text, err := reference()
	if err != nil {
		return err
	}
	const mode = 0o644
	if err := os.WriteFile(args[0], []byte(text), mode); err != nil {
		return fmt.Errorf("write the reference: %w", err)
	}
	return nil
}

// reference renders the OpenAPI document of the queue API.
func reference() (string, error) {
	raw, err := queueapi.OpenAPI()
	if err != nil {
		return "", fmt.Errorf("read the OpenAPI document: %w", err)
	}
	var d document
	if err := json.Unmarshal(raw, &d); err != nil {
		return "", fmt.Errorf("read the OpenAPI document: %w", err)
	}
	if d.Paths, err = operations(raw); err != nil {
		return "", err
	}
	return d.render()
}

// operations reads the methods of all paths; what else a path item holds is not an operation.
func operations(raw []byte) (map[string]map[string]operation, error) {
	var all struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("read paths: %w", err)
	}
	paths := map[string]map[string]operation{}
	for path, items := range all.Paths {
		paths[path] = map[string]operation{}
		for method, item := range items {
			if method == "parameters" {
				continue
			}
			var op operation
			if err := json.Unmarshal(item, &op); err != nil {
				return nil, fmt.Errorf("read %s %s: %w", method, path, err)
			}
			paths[path][method] = op
		}
	}
	return paths, nil
}
