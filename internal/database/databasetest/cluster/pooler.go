//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoPooler says that this machine has no PgBouncer and none could be installed.
var ErrNoPooler = errors.New("no PgBouncer found: install it (Debian, Ubuntu: apt-get install pgbouncer)")

// Pooler is a PgBouncer before a server, with its own default configuration but for the pool's mode and, in session
// mode, its size: there each connection of a process holds one of the server's.
type Pooler struct {
	dir     string
	address *url.URL
	server  *exec.Cmd
	exited  chan struct{}
}

// StartPooler starts a PgBouncer of the mode, session or transaction, before the server at the address, whose host is a
// socket's directory. The users need no password.
func StartPooler(mode, address string, users ...string) (_ *Pooler, err error) {
	program, err := pgbouncer()
	if err != nil {
		return nil, err
	}
	account, err := serverAccount()
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("start PgBouncer: the server's address is not valid")
	}
	p := &Pooler{exited: make(chan struct{})}
	if p.dir, err = os.MkdirTemp("/tmp", "supplyhub-pgbouncer-"); err != nil {
		return nil, err
	}
	port, err := p.write(mode, target.Query().Get("host"), users)
	if err == nil && account != nil {
		err = os.Chown(p.dir, int(account.Uid), int(account.Gid))
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	p.address = &url.URL{Scheme: "postgres", User: target.User, Host: "127.0.0.1:" + port, Path: target.Path,
		RawQuery: "sslmode=disable"}
	p.server = command(p.dir, account, program, filepath.Join(p.dir, "pgbouncer.ini"))
	if err := launch(p.server, p.exited); err != nil {
		return nil, errors.Join(fmt.Errorf("start PgBouncer: %w", err), os.RemoveAll(p.dir))
	}
	if err := p.ready(); err != nil {
		p.Remove()
		return nil, fmt.Errorf("start PgBouncer: %w", err)
	}
	return p, nil
}

// pgbouncer is the program's path; it is installed once where we may.
var pgbouncer = sync.OnceValues(func() (string, error) {
	find := func() (string, error) {
		for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
			if path, err := exec.LookPath(name); err == nil {
				return path, nil
			}
		}
		return "", ErrNoPooler
	}
	path, err := find()
	if err == nil || os.Geteuid() != 0 {
		return path, err
	}
	if installErr := install("pgbouncer"); installErr != nil {
		return "", fmt.Errorf("%w; %w", err, installErr)
	}
	return find()
})

func (p *Pooler) write(mode, socket string, users []string) (port string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port = strconv.Itoa(listener.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // of a TCP listener
	if err := listener.Close(); err != nil {
		return "", err
	}
	var list strings.Builder
	for _, user := range users {
		fmt.Fprintf(&list, "%q \"\"\n", user)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "users.txt"), []byte(list.String()), 0o644); err != nil {
		return "", err
	}
	config := fmt.Sprintf("[databases]\n* = host=%s port=5432\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"+
		"listen_port = %s\nunix_socket_dir =\n"+
		"auth_type = trust\nauth_file = %s\npool_mode = %s\nlogfile = %s\n",
		socket, port, filepath.Join(p.dir, "users.txt"), mode, filepath.Join(p.dir, "log"))
	if mode == "session" {
		config += "default_pool_size = 100\n"
	}
	return port, os.WriteFile(filepath.Join(p.dir, "pgbouncer.ini"), []byte(config), 0o644)
}

func (p *Pooler) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, p.Address())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-p.exited:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// Address is that of the server's database, through the pooler.
func (p *Pooler) Address() string { return p.address.String() }

// Remove ends the pooler and deletes its files.
func (p *Pooler) Remove() {
	if p.server.Process != nil {
		_ = p.server.Process.Kill() // it may have ended by itself
		<-p.exited
	}
	_ = os.RemoveAll(p.dir)
}
