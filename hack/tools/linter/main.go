// Command linter is golangci-lint with the Kubernetes API linter built in.
//
// One binary serves both lint configurations of the repository. Importing the plugin pins it in this module's go.mod,
// where `golangci-lint custom` would clone a repository at build time.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/golangci/golangci-lint/v2/pkg/commands"
	"github.com/golangci/golangci-lint/v2/pkg/exitcodes"
	_ "sigs.k8s.io/kube-api-linter" // Registers the kubeapilinter module plugin.
)

// version is golangci-lint's own version, set at link time from go.mod.
var version = "unknown"

func main() {
	info := commands.BuildInfo{Version: version, GoVersion: runtime.Version()}

	if err := commands.Execute(info); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)

		os.Exit(exitcodes.Failure)
	}
}
