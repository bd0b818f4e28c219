package assets

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"
)

// kubectlInstalled reports whether the kubectl in PATH may talk to the server: clients are supported within one minor
// version of it.
func kubectlInstalled(ctx context.Context, server string) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()

	out, err := exec.CommandContext(ctx, "kubectl", "version", "--client", "--output=json").Output()
	if err != nil {
		return false
	}

	var reply struct {
		ClientVersion struct {
			GitVersion string `json:"gitVersion"`
		} `json:"clientVersion"`
	}

	if json.Unmarshal(out, &reply) != nil {
		return false
	}

	return compatible(reply.ClientVersion.GitVersion, server)
}

func compatible(client, server string) bool {
	clientMajor, clientMinor, ok := majorMinor(client)
	if !ok {
		return false
	}

	serverMajor, serverMinor, ok := majorMinor(server)

	return ok && clientMajor == serverMajor && clientMinor-serverMinor <= 1 && serverMinor-clientMinor <= 1
}

// majorMinor reads the two leading numbers of a version such as v1.37.2.
func majorMinor(version string) (major, minor int, ok bool) {
	count, err := fmt.Sscanf(version, "v%d.%d.", &major, &minor)

	return major, minor, err == nil && count == 2
}
