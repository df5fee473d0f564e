//go:build unix

// Package cluster runs PostgreSQL servers of its own: made from nothing, started, crashed, started again, thrown away.
package cluster

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
	port         = "5432"
)

// Cluster is a server that listens on a socket in a directory of its own, where only its user may enter.
type Cluster struct {
	dir     string
	bin     string
	account *syscall.Credential
	durable bool
	more    []string // settings
	server  *exec.Cmd
	exited  chan struct{}
}

// Start makes and starts a server; durable flushes every commit to the disk, as in production. More settings are
// name=value. It ends with this process.
func Start(durable bool, more ...string) (*Cluster, error) {
	bases := []string{os.TempDir(), "/tmp"}
	if durable {
		slices.Reverse(bases) // temporary files may be in memory
	}
	return StartIn(slices.Compact(bases), durable, more...)
}

// StartIn is Start in the first of the directories that the server's account may enter.
func StartIn(bases []string, durable bool, more ...string) (*Cluster, error) {
	bin, err := findOrInstall()
	if err != nil {
		return nil, err
	}
	account, err := serverAccount()
	if err != nil {
		return nil, err
	}
	dir, err := initialise(bases, bin, account)
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, bin: bin, account: account, durable: durable, more: more}
	if err := c.Restart(); err != nil {
		c.Remove()
		return nil, err
	}
	return c, nil
}

// Restart starts an ended server on the same files and waits until it answers.
func (c *Cluster) Restart() error {
	c.exited = make(chan struct{})
	if err := c.start(); err != nil {
		close(c.exited)
		return err
	}
	if err := c.ready(); err != nil {
		return fmt.Errorf("start PostgreSQL: %w\n%s", err, c.LogTail())
	}
	return nil
}

// Crash ends the server at once, without a checkpoint: its next start recovers from the log.
func (c *Cluster) Crash() {
	if c.server == nil || c.server.Process == nil {
		return
	}
	_ = c.Thaw()                                 // frozen, it would take no signal
	_ = c.server.Process.Signal(syscall.SIGQUIT) // it may have ended by itself
	select {
	case <-c.exited:
	case <-time.After(stopTimeout):
		_ = c.server.Process.Kill()
		<-c.exited
	}
}

// Own makes the account that the server runs as the owner of a file or directory.
func (c *Cluster) Own(path string) error {
	if c.account == nil {
		return nil
	}
	return os.Chown(path, int(c.account.Uid), int(c.account.Gid))
}

// Tool returns the path of one of the server's programs, such as pg_dump, or its name where PATH has it.
func (c *Cluster) Tool(name string) string {
	server, err := filepath.EvalSymlinks(filepath.Join(c.bin, "postgres"))
	if err != nil {
		return name
	}
	tool := filepath.Join(filepath.Dir(server), name)
	if _, err := os.Stat(tool); err != nil {
		return name
	}
	return tool
}

// ErrOldTools says that pg_dump and the others here are older than the server, which they refuse.
var ErrOldTools = errors.New("PostgreSQL's own tools on this machine are older than the server")

// FindTools returns ErrOldTools unless the tools fit Start's servers.
func FindTools() error {
	bin, err := findOrInstall()
	if err != nil {
		return err
	}
	if c := (&Cluster{bin: bin}); versionOf(c.Tool("pg_dump")) < majorVersion(bin) {
		return ErrOldTools
	}
	return nil
}

// Exited returns a channel that is closed when the server has ended.
func (c *Cluster) Exited() <-chan struct{} { return c.exited }

// Socket returns the path of the server's socket.
func (c *Cluster) Socket() string { return filepath.Join(c.dir, ".s.PGSQL."+port) }

// Run runs one of PostgreSQL's own programs.
func Run(ctx context.Context, name string, args ...string) error {
	bin, err := binaries()
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, program(bin, name), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// program returns the path of one of PostgreSQL's own programs: where the servers are, or else on the PATH.
func program(bin, name string) string {
	if path, err := exec.LookPath(filepath.Join(bin, name)); err == nil {
		return path
	}
	return name
}

// binaries returns the directory of the newest PostgreSQL on this machine, or of the one that is chosen.
func binaries() (string, error) {
	if chosen := os.Getenv("SUPPLYHUB_TEST_POSTGRES_BIN"); chosen != "" {
		return chosen, nil
	}
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin"} {
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

// majorVersion returns 0 when dir does not hold a whole server.
func majorVersion(dir string) int {
	if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
		return 0
	}
	return versionOf(filepath.Join(dir, "postgres"))
}

// versionOf returns the major version that a program names, or 0.
func versionOf(program string) int {
	out, err := exec.Command(program, "--version").Output()
	match := versionNumber.FindSubmatch(out)
	if err != nil || match == nil {
		return 0
	}
	version, _ := strconv.Atoi(string(match[1]))
	return version
}

// serverAccount returns whom the server runs as: nil for ourselves, another user for root, whom PostgreSQL refuses.
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

// initialise makes the cluster's directory and files.
func initialise(bases []string, bin string, account *syscall.Credential) (string, error) {
	var errs []error
	for _, base := range bases {
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

func (c *Cluster) start() error {
	log, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", filepath.Join(c.dir, "data"), "-k", c.dir, "-p", port}
	for _, setting := range append(settings(c.durable), c.more...) {
		args = append(args, "-c", setting)
	}
	c.server = command(c.dir, c.account, filepath.Join(c.bin, "postgres"), args...)
	c.server.Stdout, c.server.Stderr = log, log
	if err := launch(c.server, c.exited); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return nil
}

// launch starts a command; exited is closed when it has ended.
func launch(server *exec.Cmd, exited chan struct{}) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel ends the server when the thread that started it ends: this one outlives it
		defer runtime.UnlockOSThread()
		err := server.Start()
		if started <- err; err == nil {
			_ = server.Wait()
			close(exited)
		}
	}()
	return <-started
}

func settings(durable bool) []string {
	s := []string{"listen_addresses=", "max_connections=300", "shared_buffers=128MB"}
	if !durable {
		s = append(s, "fsync=off", "synchronous_commit=off", "full_page_writes=off")
	}
	return s
}

// Address names the maintenance database.
func (c *Cluster) Address() string {
	return "postgres://" + role + "@/postgres?" + url.Values{"host": {c.dir}, "port": {port}}.Encode()
}

func (c *Cluster) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.Address())
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

// Remove ends the server and deletes its files.
func (c *Cluster) Remove() {
	c.Crash()
	_ = os.RemoveAll(c.dir)
}

func (c *Cluster) logFile() string { return filepath.Join(c.dir, "log") }

// LogTail returns the end of the server's log.
func (c *Cluster) LogTail() string {
	content, err := os.ReadFile(c.logFile())
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-logShown):])
}
