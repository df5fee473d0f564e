//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	role         = "supplyhub"
	startTimeout = time.Minute
	stopTimeout  = 10 * time.Second
	logShown     = 2000 // bytes
)

// cluster is a server that listens on a socket in a directory of its own, where only its user may enter.
type cluster struct {
	dir    string
	server *exec.Cmd
	exited chan struct{}
}

// startCluster must be called from the main goroutine: the kernel ends the server with the thread that started it.
func startCluster(durable bool) (*cluster, error) {
	runtime.LockOSThread()
	bin, err := findOrInstall()
	if err != nil {
		return nil, err
	}
	account, err := serverAccount()
	if err != nil {
		return nil, err
	}
	dir, err := initialise(bin, account)
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, exited: make(chan struct{})}
	if err := c.start(bin, account, durable); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	if err := c.ready(); err != nil {
		err = fmt.Errorf("start PostgreSQL: %w\n%s", err, c.logTail())
		c.remove()
		return nil, err
	}
	return c, nil
}

// binaries is the directory of the newest PostgreSQL on this machine.
func binaries() (string, error) {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin"} {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	best, version := "", 0
	for _, dir := range dirs {
		if v := majorVersion(dir); v > version {
			best, version = dir, v
		}
	}
	if best == "" {
		return "", errNoServer
	}
	return best, nil
}

var versionNumber = regexp.MustCompile(`\) (\d+)`)

// majorVersion is 0 when dir does not hold a whole server.
func majorVersion(dir string) int {
	if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
		return 0
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	match := versionNumber.FindSubmatch(out)
	if err != nil || match == nil {
		return 0
	}
	version, _ := strconv.Atoi(string(match[1]))
	return version
}

// serverAccount is whom the server runs as: nil for ourselves, somebody else for root, whom PostgreSQL refuses.
func serverAccount() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as")
}

// initialise makes the cluster's directory and files; /tmp stands in where the account may not enter TMPDIR.
func initialise(bin string, account *syscall.Credential) (string, error) {
	var errs []error
	for _, base := range slices.Compact([]string{os.TempDir(), "/tmp"}) {
		dir, err := initialiseIn(base, bin, account)
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func initialiseIn(base, bin string, account *syscall.Credential) (_ string, err error) {
	dir, err := os.MkdirTemp(base, "supplyhub-postgres-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	if account != nil {
		if err := os.Chown(dir, int(account.Uid), int(account.Gid)); err != nil {
			return "", err
		}
	}
	cmd := command(dir, account, filepath.Join(bin, "initdb"), "--pgdata", filepath.Join(dir, "data"), "--username", role,
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb in %s: %w\n%s", dir, err, out)
	}
	return dir, nil
}

func command(dir string, account *syscall.Credential, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "PG") })
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	cmd.SysProcAttr = attributes(account)
	return cmd
}

func (c *cluster) start(bin string, account *syscall.Credential, durable bool) error {
	log, err := os.Create(c.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", filepath.Join(c.dir, "data"), "-k", c.dir, "-p", "5432"}
	for _, setting := range settings(durable) {
		args = append(args, "-c", setting)
	}
	c.server = command(c.dir, account, filepath.Join(bin, "postgres"), args...)
	c.server.Stdout, c.server.Stderr = log, log
	if err := c.server.Start(); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	go func() {
		defer close(c.exited)
		_ = c.server.Wait()
	}()
	return nil
}

func settings(durable bool) []string {
	s := []string{"listen_addresses=", "max_connections=300", "shared_buffers=128MB"}
	if !durable {
		s = append(s, "fsync=off", "synchronous_commit=off", "full_page_writes=off")
	}
	return s
}

// address leads to the maintenance database.
func (c *cluster) address() string {
	return "postgres://" + role + "@/postgres?" + url.Values{"host": {c.dir}, "port": {"5432"}}.Encode()
}

func (c *cluster) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.address())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-c.exited:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// remove ends the server without a checkpoint, as nobody will read it again, and deletes its files.
func (c *cluster) remove() {
	_ = c.server.Process.Signal(syscall.SIGQUIT)
	select {
	case <-c.exited:
	case <-time.After(stopTimeout):
		_ = c.server.Process.Kill()
		<-c.exited
	}
	if err := os.RemoveAll(c.dir); err != nil {
		fmt.Fprintln(os.Stderr, "withpostgres:", err)
	}
}

func (c *cluster) logFile() string { return filepath.Join(c.dir, "log") }

func (c *cluster) logTail() string {
	content, err := os.ReadFile(c.logFile())
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-logShown):])
}
