package storetest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
)

// replyError is what a server said instead of an answer.
type replyError string

func (e replyError) Error() string { return string(e) }

// talk sends one command and reads its answer, in the oldest form of Redis' protocol (RESP2). The
// tests of a client must not rest on that client.
func talk(c net.Conn, args []string) (any, error) {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.Write(b); err != nil {
		return nil, err
	}
	return readReply(bufio.NewReader(c))
}

func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("a reply that is no reply: %q", line)
	}
	kind, text := line[0], line[1:len(line)-2]
	if kind == '+' {
		return text, nil
	}
	if kind == '-' {
		return nil, replyError(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("a reply that is no reply: %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil //nolint:nilnil // Redis' own nil
	case kind == '$':
		b := make([]byte, n+2)
		_, err := io.ReadFull(r, b)
		return string(b[:max(len(b)-2, 0)]), err
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = readReply(r); err != nil {
				return nil, err
			}
		}
		return list, nil
	default:
		return nil, fmt.Errorf("a reply that is no reply: %q", line)
	}
}
