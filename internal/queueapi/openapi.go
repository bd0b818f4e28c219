package queueapi

import (
	_ "embed"
	"fmt"
	"net/http"
	"sync"

	"sigs.k8s.io/yaml"
)

//go:generate go run ./apidoc ../../docs/http-api.md

//go:embed openapi.yaml
var openAPIYAML []byte

// OpenAPI returns the OpenAPI 3.1 document of the data plane, as JSON.
//
//nolint:gochecknoglobals // computed once from a constant
var OpenAPI = sync.OnceValues(func() ([]byte, error) {
	document, err := yaml.YAMLToJSON(openAPIYAML)
	if err != nil {
		return nil, fmt.Errorf("convert openapi.yaml: %w", err)
	}
	return document, nil
})

func (a *API) serveOpenAPI(c *call) error {
	document, err := OpenAPI()
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(http.StatusOK)
	if _, err := c.w.Write(document); err != nil {
		return fmt.Errorf("%w: %w", errUndelivered, err)
	}
	return nil
}
