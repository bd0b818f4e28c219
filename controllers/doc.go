// Package controllers is the operator: one manager that runs the reconcilers of all kinds over one set of database
// pools.
package controllers
