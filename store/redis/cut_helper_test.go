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

// between stands between a store and its Redis, knows one command from the next, and does one of
// them harm.
type between struct {
	server string
	l      net.Listener
	open   sync.WaitGroup

	mu   sync.Mutex
	seen int  // commands since the last harm was told
	at   int  // the command that comes to harm
	how  harm // what becomes of it
	done bool // it has come to it
}

// harm is what becomes of a command: it is cut off before the server has it, the server carries it
// out and nobody hears of it, or the server says what stands there instead.
type harm string

const (
	cutBefore harm = "cut before"
	cutBehind harm = "cut behind"
)

func standBetween(t *testing.T, server string) *between {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &between{server: server, l: l, at: -1}
	b.open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.open.Go(func() { b.serve(c) })
		}
	})
	return b
}

func (b *between) url() string { return "redis://" + b.l.Addr().String() }

// close waits for the connections, which whoever opened them must have closed.
func (b *between) close() {
	_ = b.l.Close()
	b.open.Wait()
}

// next does harm to the command of that number, from 0 on; a negative one does none.
func (b *between) next(at int, how harm) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen, b.at, b.how, b.done = 0, at, how, false
}

// commands is how many came since then, and whether one of them came to harm.
func (b *between) commands() (n int, harmed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen, b.done
}

// judge says what becomes of a command.
func (b *between) judge(name string) harm {
	switch name {
	case "HELLO", "CLIENT", "SELECT", "COMMAND": // the client's own, when it connects
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen++
	if b.seen-1 != b.at || b.done {
		return ""
	}
	b.done = true
	return b.how
}

func (b *between) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", b.server)
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
		if name == "HELLO" { // both then speak RESP2
			_, _ = io.WriteString(client, "-ERR unknown command 'HELLO'\r\n")
			continue
		}
		switch how := b.judge(name); how {
		case cutBefore:
			return
		case "", cutBehind:
			if _, err := server.Write(raw); err != nil {
				return
			}
			reply, err := readRaw(back)
			if err != nil || how == cutBehind {
				return
			}
			_, _ = client.Write(reply)
		default:
			_, _ = fmt.Fprintf(client, "-%s\r\n", how)
		}
	}
}

// readCommand reads a command as it came, and its name.
func readCommand(r *bufio.Reader) (name string, raw []byte, err error) {
	raw, err = readRaw(r)
	if err != nil {
		return "", nil, err
	}
	parts := strings.SplitN(string(raw), "\r\n", 4)
	if len(parts) < 4 {
		return "", nil, fmt.Errorf("no command: %q", raw)
	}
	return strings.ToUpper(parts[2]), raw, nil
}

// readRaw reads one value of RESP2 as it stands.
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
