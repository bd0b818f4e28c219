package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// scripts is where the image looks for scripts to run on a new database.
const scripts = "/docker-entrypoint-initdb.d"

// contract is what a pod asks of the image.
type contract struct {
	user, password, database string
	// data is the folder of PGDATA on the host.
	data       string
	address    string
	initdbArgs []string
}

func readContract(lookup func(string) string) (*contract, error) {
	c := &contract{address: lookup("HOSTPODS_ADDRESS"), initdbArgs: strings.Fields(lookup("POSTGRES_INITDB_ARGS"))}
	if c.address == "" {
		return nil, errors.New("HOSTPODS_ADDRESS is not set")
	}

	for _, variable := range []struct {
		name string
		into *string
	}{
		{"POSTGRES_USER", &c.user}, {"POSTGRES_PASSWORD", &c.password}, {"POSTGRES_DB", &c.database},
	} {
		value, err := valueOrFile(lookup, variable.name)
		if err != nil {
			return nil, err
		}

		*variable.into = value
	}

	if c.password == "" {
		return nil, errors.New("POSTGRES_PASSWORD must not be empty")
	}

	c.user = cmp.Or(c.user, "postgres")
	c.database = cmp.Or(c.database, c.user)

	var volumes map[string]string
	if err := json.Unmarshal([]byte(lookup("HOSTPODS_VOLUMES")), &volumes); err != nil {
		return nil, fmt.Errorf("HOSTPODS_VOLUMES: %w", err)
	}

	if _, mounted := volumes[scripts]; mounted {
		return nil, fmt.Errorf("scripts in %s are not supported", scripts)
	}

	var err error

	c.data, err = onHost(volumes, cmp.Or(lookup("PGDATA"), "/var/lib/postgresql/data"))

	return c, err
}

// valueOrFile reads a variable, or the file that the variable of that name and _FILE names.
func valueOrFile(lookup func(string) string, name string) (string, error) {
	value, file := lookup(name), lookup(name+"_FILE")

	switch {
	case value != "" && file != "":
		return "", fmt.Errorf("%s and %s_FILE are exclusive", name, name)
	case file == "":
		return value, nil
	}

	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s_FILE: %w", name, err)
	}

	// As a shell reads a file.
	return strings.TrimRight(string(content), "\n"), nil
}

// onHost turns a path of the container into one of the host. It must be on a volume: nothing else is the pod's.
func onHost(volumes map[string]string, inside string) (string, error) {
	inside = path.Clean(inside)

	for mount := inside; ; mount = path.Dir(mount) {
		if folder, found := volumes[mount]; found {
			return filepath.Join(folder, filepath.FromSlash(strings.TrimPrefix(inside, mount))), nil
		}

		if mount == path.Dir(mount) {
			return "", fmt.Errorf("%s is not on a volume", inside)
		}
	}
}
