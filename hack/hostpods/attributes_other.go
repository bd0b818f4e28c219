//go:build !linux

package main

import "syscall"

// attributes put a process into a group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
