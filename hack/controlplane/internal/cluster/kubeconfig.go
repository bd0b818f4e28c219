package cluster

import (
	"encoding/json"
	"os"
)

// named is an entry of a kubeconfig list: its name and the one field of the list's kind.
type named map[string]any

// writeKubeconfigs writes the credentials of the administrator and the controller manager.
func writeKubeconfigs(place layout, ports ports) error {
	if err := writeKubeconfig(place, place.kubeconfig(), administrator, ports); err != nil {
		return err
	}

	return writeKubeconfig(place, place.controllerKubeconfig(), controllerManager, ports)
}

// writeKubeconfig writes JSON, which is YAML too. Certificates are embedded so that the file can be copied anywhere.
func writeKubeconfig(place layout, path, user string, ports ports) error {
	certificates := map[string][]byte{}

	for field, source := range map[string]string{
		"authority":   place.certificate(authority),
		"certificate": place.certificate(user),
		"key":         place.key(user),
	} {
		content, err := os.ReadFile(source)
		if err != nil {
			return err
		}

		certificates[field] = content
	}

	const context = "controlplane"

	content, err := json.MarshalIndent(map[string]any{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []named{{"name": context, "cluster": named{
			"server":                     loopbackURL(ports.APIServer),
			"certificate-authority-data": certificates["authority"],
		}}},
		"users": []named{{"name": user, "user": named{
			"client-certificate-data": certificates["certificate"],
			"client-key-data":         certificates["key"],
		}}},
		"contexts":        []named{{"name": context, "context": named{"cluster": context, "user": user}}},
		"current-context": context,
	}, "", "  ")
	if err != nil {
		return err
	}

	return os.WriteFile(path, append(content, '\n'), 0o600)
}
