package soak

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// roleVariable tells a process that it was started by this package, and as what.
const roleVariable = "OUTBOUND_SOAK_ROLE"

const (
	roleProxies = "proxies"
	roleShop    = "shop"
)

// RunChild does the work of a child process, if this process is one, and then ends it. Otherwise it returns at once. Call
// it before anything else in main, or in TestMain.
func RunChild() {
	var err error
	switch role := os.Getenv(roleVariable); role {
	case "":
		return
	case roleProxies:
		err = runProxies(os.Stdin, os.Stdout)
	case roleShop:
		err = runShop(os.Stdin, os.Stdout)
	default:
		err = fmt.Errorf("%s is %q, which is no role", roleVariable, role)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child is a process started from the program that runs. It ends by itself when its standard input does, so that it never
// outlives its parent.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
	stderr *tail
}

func startChild(role string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self), stderr: &tail{}}
	c.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	c.cmd.Stderr = c.stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if c.stdout, err = c.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the %s process: %w", role, err)
	}
	return c, nil
}

// end kills the process and takes its resources back. It reports how the process ended.
func (c *child) end() *os.ProcessState {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // killed is how it is meant to end
	return c.cmd.ProcessState
}

// failed is err with what the process has said about it.
func (c *child) failed(err error) error {
	c.end()
	if said := c.stderr.String(); said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// tail keeps the end of what is written to it. A process that complains for an hour must not fill the memory.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - tailSize; over > 0 {
		t.kept = append([]byte(nil), t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
