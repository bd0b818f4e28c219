package main

import "syscall"

// attributes let a server whose caller was killed end at once; it recovers when it starts again.
func (a account) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: a.credential, Pdeathsig: syscall.SIGQUIT}
}
