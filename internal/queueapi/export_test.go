package queueapi

import (
	"context"
	"slices"
	"sync"
)

// RoutesForTest lists the routes of the mux as "METHOD path".
func RoutesForTest() []string {
	var names []string
	for _, r := range append(queueRoutes(), operationRoutes()...) {
		names = append(names, r.method+" "+r.path)
	}
	slices.Sort(names)
	return names
}

// HeldBodyBytes is how much of the budget of bodies is taken.
func (a *API) HeldBodyBytes() int64 { return a.bodies.used.Load() }

// SetBodyBudget replaces the budget of bodies.
func (a *API) SetBodyBudget(limit int64) { a.bodies.limit = limit }

// ShareWakeUps runs the loops that wake other processes' long polls, with no jitter, until ctx ends.
func (a *API) ShareWakeUps(ctx context.Context) {
	m := a.maintenance()
	m.jitter = func() float64 { return 0 }
	var group sync.WaitGroup
	group.Go(func() { m.announce(ctx) })
	group.Go(func() { m.listen(ctx) })
	group.Wait()
}
