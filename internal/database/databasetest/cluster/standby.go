//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// Standby makes and starts a standby that the server's commits wait for from then on.
func (c *Cluster) Standby() (_ *Cluster, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(c.dir), "supplyhub-standby-")
	if err != nil {
		return nil, err
	}
	s := &Cluster{dir: dir, bin: c.bin, account: c.account, durable: c.durable}
	defer func() {
		if err != nil {
			s.Remove()
		}
	}()
	if c.account != nil {
		if err := os.Chown(dir, int(c.account.Uid), int(c.account.Gid)); err != nil {
			return nil, err
		}
	}
	backup := command(dir, c.account, c.Tool("pg_basebackup"), "--host", c.dir, "--port", port, "--username", role,
		"--pgdata", filepath.Join(dir, "data"), "--write-recovery-conf", "--checkpoint", "fast", "--no-sync")
	if out, err := backup.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	if err := s.Restart(); err != nil {
		return nil, err
	}
	return s, c.Set("synchronous_standby_names", "*") // after the copy, which must not wait for anybody
}

// Set changes a setting of the running server.
func (c *Cluster) Set(name, value string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.Address())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "ALTER SYSTEM SET "+name+" = '"+value+"'"); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SELECT pg_reload_conf()")
	return err
}

// Promote makes a standby a primary.
func (c *Cluster) Promote() error {
	out, err := command(c.dir, c.account, c.Tool("pg_ctl"), "promote", "--wait", "--pgdata",
		filepath.Join(c.dir, "data")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pg_ctl promote: %w\n%s", err, out)
	}
	return nil
}

// Freeze stops the server and all its processes where they are: connections stay and nothing answers. Thaw lets them go
// on.
func (c *Cluster) Freeze() error { return c.signal(syscall.SIGSTOP) }

// FreezeNew stops only what takes new connections: those that there are go on. Thaw ends it.
func (c *Cluster) FreezeNew() error { return syscall.Kill(c.server.Process.Pid, syscall.SIGSTOP) }

// Thaw ends Freeze.
func (c *Cluster) Thaw() error { return c.signal(syscall.SIGCONT) }

func (c *Cluster) signal(s syscall.Signal) error {
	for _, pid := range append(children(c.server.Process.Pid), c.server.Process.Pid) {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// children returns the processes of the server, which are each a group of their own.
func children(parent int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		var pid, ppid int
		var state string
		after := content
		for i, b := range content {
			if b == ')' {
				after = content[i+1:]
			}
		}
		_, pidErr := fmt.Sscan(string(content), &pid)
		_, restErr := fmt.Sscan(string(after), &state, &ppid)
		if pidErr == nil && restErr == nil && ppid == parent {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Together returns the address of a database on both servers, in this order.
func Together(first, second *Cluster, database string, more url.Values) string {
	query := url.Values{"host": {first.dir + "," + second.dir}, "port": {port + "," + port}}
	for name, values := range more {
		query[name] = values
	}
	return "postgres://" + role + "@/" + database + "?" + query.Encode()
}
