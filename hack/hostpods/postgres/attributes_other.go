//go:build !linux

package main

import "syscall"

// attributes run a process under the account.
func (a account) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: a.credential}
}
