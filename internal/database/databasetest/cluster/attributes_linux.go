package cluster

import "syscall"

// attributes make the server run as the account and end with us even when we are killed.
func attributes(account *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: account, Pdeathsig: syscall.SIGQUIT, Setpgid: true}
}
