//go:build unix

// Command withpostgres runs a command with a PostgreSQL server of its own, thrown away afterwards:
//
//	withpostgres [-durable] [-citus] [-c NAME=VALUE]… COMMAND ARGUMENT…
//
// The command finds the server's address in SUPPLYHUB_TEST_POSTGRES; withpostgres ends with the command's exit code.
// With -citus there are three servers with that extension, and the addresses of the two workers are in
// SUPPLYHUB_TEST_CITUS_WORKERS. Where the extension is not installed, withpostgres runs nothing and says so. The server
// belongs to a second process, the guard, which removes it as soon as withpostgres is gone, killed included.
//
// Without -durable the server's files, and the command's temporary ones, are in memory where there is plenty of it:
// tests make and remove thousands of databases, and file systems take as long for that as PostgreSQL does.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
)

const (
	exitSetup      = 125 // the server did not start
	exitNotStarted = 127 // the command did not start, as a shell has it
	exitSignal     = 128 // plus the number of the signal that ended the command

	citusWorkers = 2

	memory     = "/dev/shm"
	memoryFree = 8 << 30 // bytes, of which the tests take a tenth
)

func main() {
	durable := flag.Bool("durable", false, "flush every commit to the disk, as in production (for measurements)")
	var settings []string
	flag.Func("c", "a `NAME=VALUE` of the server's configuration", func(setting string) error {
		settings = append(settings, setting)
		return nil
	})
	citus := flag.Bool("citus", false, "a coordinator and two workers of Citus, where that is installed")
	asGuard := flag.Bool("guard", false, "internal: keep the server until standard input ends")
	scratch := flag.String("scratch", "", "internal: the directory that the guard removes")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: withpostgres [-durable] [-citus] [-c NAME=VALUE]… COMMAND ARGUMENT…")
		flag.PrintDefaults()
	}
	flag.Parse()
	switch {
	case *asGuard:
		os.Exit(guard(*durable, *citus, settings, *scratch))
	case flag.NArg() == 0:
		flag.Usage()
		os.Exit(2)
	default:
		os.Exit(run(*durable, *citus, settings, flag.Args()))
	}
}

func run(durable, citus bool, settings, command []string) int {
	if citus {
		if err := cluster.FindCitus(); err != nil {
			fmt.Fprintf(os.Stderr, "SKIPPED: %s: %v\n", strings.Join(command, " "), err)
			return 0
		}
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	scratch := ""
	if !durable {
		scratch = inMemory()
	}
	addresses, release, err := startGuard(durable, citus, settings, scratch)
	if err != nil {
		return say(exitSetup, err)
	}
	defer release()
	return execute(command, addresses, signals)
}

// inMemory moves this process's temporary files into a directory in memory, and returns it; empty where there is too
// little room. Builds of go stay on the disk.
func inMemory() string {
	var there syscall.Statfs_t
	if err := syscall.Statfs(memory, &there); err != nil || float64(there.Bavail)*float64(there.Bsize) < memoryFree {
		return ""
	}
	dir, err := os.MkdirTemp(memory, "supplyhub-test-")
	if err != nil || os.Chmod(dir, 0o711) != nil { // the server's user enters it too
		return ""
	}
	if os.Getenv("GOTMPDIR") == "" {
		_ = os.Setenv("GOTMPDIR", os.TempDir())
	}
	_ = os.Setenv("TMPDIR", dir)
	return dir
}

// startGuard starts the process that owns the servers. release, or the end of this process, ends all.
func startGuard(durable, citus bool, settings []string, scratch string) (addresses []string, release func(),
	err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	args := []string{"-guard", fmt.Sprintf("-durable=%t", durable), fmt.Sprintf("-citus=%t", citus), "-scratch", scratch}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals to our process group must not reach it
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	release = func() {
		_ = lifeline.Close()
		_ = cmd.Wait()
	}
	if err != nil {
		release()
		return nil, nil, errors.New("no PostgreSQL server, so nothing was run")
	}
	return strings.Fields(line), release, nil
}

// guard starts the servers, writes their addresses to standard output, and removes them, and the directory scratch,
// when standard input ends.
func guard(durable, citus bool, settings []string, scratch string) int {
	if scratch != "" {
		defer os.RemoveAll(scratch)
	}
	signal.Ignore(syscall.SIGPIPE) // our parent may be gone already
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	servers, err := startServers(durable, citus, settings)
	if err != nil {
		return say(exitSetup, err)
	}
	defer cluster.RemoveAll(servers)
	for _, one := range servers {
		fmt.Print(one.Address(), " ")
	}
	fmt.Println()
	c := servers[0]
	select {
	case <-gone:
	case <-stop:
	case <-c.Exited():
		return say(exitSetup, fmt.Errorf("the PostgreSQL server ended by itself:\n%s", c.LogTail()))
	}
	return 0
}

func startServers(durable, citus bool, settings []string) ([]*cluster.Cluster, error) {
	if citus {
		return cluster.StartCitus(1+citusWorkers, durable, settings...)
	}
	c, err := cluster.Start(durable, settings...)
	return []*cluster.Cluster{c}, err
}

// execute runs the command and passes on the signals that this process gets.
func execute(command, addresses []string, signals <-chan os.Signal) int {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), databasetest.Environment+"="+addresses[0])
	if workers := addresses[1:]; len(workers) > 0 {
		cmd.Env = append(cmd.Env, databasetest.CitusWorkers+"="+strings.Join(workers, ","))
	}
	if err := cmd.Start(); err != nil {
		return say(exitNotStarted, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s)
		case err := <-ended:
			return exitCode(err, cmd.ProcessState)
		}
	}
}

func exitCode(err error, state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return say(exitSetup, err)
	}
	return state.ExitCode()
}

func say(code int, err error) int {
	fmt.Fprintln(os.Stderr, "withpostgres:", err)
	return code
}
