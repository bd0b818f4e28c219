package main

import (
	"errors"
	"net/netip"
	"sync"
)

// addresses hands out the addresses of a network, the lowest free one first.
type addresses struct {
	prefix netip.Prefix

	mu   sync.Mutex
	used map[netip.Addr]bool
}

func (a *addresses) take() (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if a.used == nil {
		a.used = map[netip.Addr]bool{}
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

func (a *addresses) give(address netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()

	delete(a.used, address)
}
