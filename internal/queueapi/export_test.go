package queueapi

import "slices"

// RoutesForTest lists the routes of the mux as "METHOD path".
func RoutesForTest() []string {
	var names []string
	for _, r := range append(queueRoutes(), operationRoutes()...) {
		names = append(names, r.method+" "+r.path)
	}
	slices.Sort(names)
	return names
}
