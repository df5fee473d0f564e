//go:build unix && !linux

package cluster

import "syscall"

// attributes make the server run as the account.
func attributes(account *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: account, Setpgid: true}
}
