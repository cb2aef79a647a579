package redis_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// faultProxy is a proxy between a store and Redis. It counts the store's commands, and injects a fault at one of them.
type faultProxy struct {
	server string
	l      net.Listener
	open   sync.WaitGroup // the goroutine that accepts connections, and one goroutine for each open connection

	mu           sync.Mutex
	commandsSeen int // number of commands since the last call of setFault
	faultAt      int // index of the command with the fault, counted from 0
	fault        fault
	injected     bool
	held         []byte // the delayed command, which release sends to the server
}

// fault is one of the following constants, or the text of an error that replaces the server's reply.
type fault string

const (
	cutBefore fault = "cut before execution" // the connection breaks before the server gets the command
	cutAfter  fault = "cut after execution"  // the connection breaks after the server has executed the command
	delayed   fault = "delayed"              // the connection breaks, and the server gets the command only when the test calls release
)

func newFaultProxy(t *testing.T, server string) *faultProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &faultProxy{server: server, l: l, faultAt: -1}
	p.open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.open.Go(func() { p.serve(c) })
		}
	})
	return p
}

func (p *faultProxy) url() string { return "redis://" + p.l.Addr().String() }

// close stops the proxy, and waits until all connections have ended. The clients must close their connections first.
func (p *faultProxy) close() {
	_ = p.l.Close()
	p.open.Wait()
}

// setFault resets the count of commands, and sets the fault for one command. A negative number means no fault.
func (p *faultProxy) setFault(number int, kind fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commandsSeen, p.faultAt, p.fault, p.injected = 0, number, kind, false
}

// commands returns the number of commands since the last call of setFault, and whether the proxy has injected the
// fault.
func (p *faultProxy) commands() (n int, happened bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.commandsSeen, p.injected
}

// nextFault counts a command, and returns the fault to inject at this command, or "" for none.
func (p *faultProxy) nextFault(name string) fault {
	switch name {
	case "HELLO", "CLIENT", "SELECT", "COMMAND": // the client sends these commands when it connects
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commandsSeen++
	if p.commandsSeen-1 != p.faultAt || p.injected {
		return ""
	}
	p.injected = true
	return p.fault
}

// release sends the delayed command to the server.
func (p *faultProxy) release() error {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return err
	}
	defer server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err = server.Write(p.held); err == nil {
		_, err = readRaw(bufio.NewReader(server))
	}
	return err
}

func (p *faultProxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	from, back := bufio.NewReader(client), bufio.NewReader(server)
	for {
		name, raw, err := readCommand(from)
		if err != nil {
			return
		}
		if name == "HELLO" { // an error makes the client use the older protocol RESP2
			_, _ = io.WriteString(client, "-ERR unknown command 'HELLO'\r\n")
			continue
		}
		switch kind := p.nextFault(name); kind {
		case cutBefore:
			return
		case delayed:
			p.mu.Lock()
			defer p.mu.Unlock()
			p.held = raw
			return
		case "", cutAfter:
			if _, err := server.Write(raw); err != nil {
				return
			}
			reply, err := readRaw(back)
			if err != nil || kind == cutAfter {
				return
			}
			_, _ = client.Write(reply)
		default:
			_, _ = fmt.Fprintf(client, "-%s\r\n", kind)
		}
	}
}

func readCommand(r *bufio.Reader) (name string, raw []byte, err error) {
	raw, err = readRaw(r)
	if err != nil {
		return "", nil, err
	}
	parts := strings.SplitN(string(raw), "\r\n", 4)
	if len(parts) < 4 {
		return "", nil, fmt.Errorf("invalid command %q", raw)
	}
	return strings.ToUpper(parts[2]), raw, nil
}

// readRaw reads a command or a reply, and returns its bytes without decoding them.
func readRaw(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil || len(line) < 4 {
		return line, err
	}
	n, _ := strconv.Atoi(string(line[1 : len(line)-2]))
	switch {
	case line[0] == '$' && n >= 0:
		body := make([]byte, n+2)
		_, err = io.ReadFull(r, body)
		line = append(line, body...)
	case line[0] == '*':
		for range n {
			item, err := readRaw(r)
			if err != nil {
				return nil, err
			}
			line = append(line, item...)
		}
	}
	return line, err
}
