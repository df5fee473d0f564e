//go:build unix

// Command withpostgres runs a command beside a PostgreSQL server of its own, thrown away afterwards:
//
//	withpostgres [-durable] [-c NAME=VALUE]… COMMAND ARGUMENT…
//
// The command finds the server's address in SUPPLYHUB_TEST_POSTGRES; withpostgres ends with the command's exit code.
// The server belongs to a second process, the guard, which removes it as soon as withpostgres is gone, killed included.
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
)

func main() {
	durable := flag.Bool("durable", false, "flush every commit to the disk, as in production (for measurements)")
	var settings []string
	flag.Func("c", "a `NAME=VALUE` of the server's configuration", func(setting string) error {
		settings = append(settings, setting)
		return nil
	})
	asGuard := flag.Bool("guard", false, "internal: keep the server until standard input ends")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: withpostgres [-durable] [-c NAME=VALUE]… COMMAND ARGUMENT…")
		flag.PrintDefaults()
	}
	flag.Parse()
	switch {
	case *asGuard:
		os.Exit(guard(*durable, settings))
	case flag.NArg() == 0:
		flag.Usage()
		os.Exit(2)
	default:
		os.Exit(run(*durable, settings, flag.Args()))
	}
}

func run(durable bool, settings, command []string) int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	address, release, err := startGuard(durable, settings)
	if err != nil {
		return say(exitSetup, err)
	}
	defer release()
	return execute(command, address, signals)
}

// startGuard starts the process that owns the server. release, or the end of this process, ends both.
func startGuard(durable bool, settings []string) (address string, release func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	args := []string{"-guard", fmt.Sprintf("-durable=%t", durable)}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what is sent to our process group must not reach it
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	release = func() {
		_ = lifeline.Close()
		_ = cmd.Wait()
	}
	if err != nil {
		release()
		return "", nil, errors.New("no PostgreSQL server, so nothing was run")
	}
	return strings.TrimSpace(line), release, nil
}

// guard starts the server, writes its address to standard output, and removes it when standard input ends.
func guard(durable bool, settings []string) int {
	signal.Ignore(syscall.SIGPIPE) // our parent may be gone already
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	c, err := cluster.Start(durable, settings...)
	if err != nil {
		return say(exitSetup, err)
	}
	defer c.Remove()
	fmt.Println(c.Address())
	select {
	case <-gone:
	case <-stop:
	case <-c.Exited():
		return say(exitSetup, fmt.Errorf("the PostgreSQL server ended by itself:\n%s", c.LogTail()))
	}
	return 0
}

// execute runs the command and passes on the signals that this process gets.
func execute(command []string, address string, signals <-chan os.Signal) int {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), databasetest.Environment+"="+address)
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
