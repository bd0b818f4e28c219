package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
)

// reservations are the addresses of pods that have the same one every time, by namespace/name.
type reservations map[string]netip.Addr

func (r reservations) String() string { return "" }

// Set reads one NAMESPACE/POD=ADDRESS.
func (r reservations) Set(text string) error {
	pod, address, found := strings.Cut(text, "=")
	if !found || strings.Count(pod, "/") != 1 {
		return errors.New("must be NAMESPACE/POD=ADDRESS")
	}

	parsed, err := netip.ParseAddr(address)
	r[pod] = parsed

	return err
}

// addresses hands out the addresses of a network, the lowest free one first.
type addresses struct {
	prefix   netip.Prefix
	reserved reservations

	mu   sync.Mutex
	used map[netip.Addr]bool
}

// take returns an address for a pod: the one that is reserved for it, or one that nobody has.
func (a *addresses) take(pod string) (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if a.used == nil {
		a.used = map[netip.Addr]bool{}

		for _, address := range a.reserved {
			a.used[address] = true
		}
	}

	if address, found := a.reserved[pod]; found {
		if !a.prefix.Contains(address) {
			return address, fmt.Errorf("the reserved address %s is not of the network %s", address, a.prefix)
		}

		return address, nil
	}

	// The first address of a network is not for its members.
	for address := a.prefix.Addr().Next(); a.prefix.Contains(address); address = address.Next() {
		if !a.used[address] {
			a.used[address] = true

			return address, nil
		}
	}

	return netip.Addr{}, errors.New("the network has no free address")
}

func (a *addresses) give(pod string, address netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if _, found := a.reserved[pod]; !found {
		delete(a.used, address)
	}
}
