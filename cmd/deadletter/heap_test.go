package main

import "testing"

func TestHeapFloorGivesWayToTheEnvironment(t *testing.T) {
	for _, variable := range []string{"", "GOGC", "GOMEMLIMIT"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			if variable != "" {
				t.Setenv(variable, "100")
			}
			if got, want := len(newHeapFloor()) > 0, variable == ""; got != want {
				t.Errorf("there is a floor: %t, want %t", got, want)
			}
		})
	}
}
