package main

import (
	"context"
	"errors"
	"net"
)

// notifyManager tells a service manager what precept does: a datagram to the socket that
// NOTIFY_SOCKET names, as sd_notify(3) has it. Without the variable nobody asks.
func (w *world) notifyManager(ctx context.Context, state string) error {
	name := w.variable("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixgram", name)
	if err != nil {
		return err
	}
	_, err = c.Write([]byte(state))
	return errors.Join(err, c.Close())
}
