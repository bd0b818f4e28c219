// Package server runs the servers that are measured, each as a process of its own that ends with this one.
package server
