package outbox

import (
	"encoding/json"
	"os"
)

// The ballast, the file that reserves disk space, begins with a copy of the account (the exchange counts). The copy is
// written after each transaction. If damage has destroyed the newest rows, only this copy shows the loss. It is not
// synced to the disk, so it can be old or missing.

// accountCopyBytes limits the copy, which is JSON followed by a zero byte.
const accountCopyBytes = 4096

// The caller holds mu.
func (o *Outbox) writeAccountCopy() {
	if !o.hasBallast {
		return
	}
	text, err := json.Marshal(o.storedCounts.byName())
	if err != nil || len(text) >= accountCopyBytes {
		return
	}
	f, err := os.OpenFile(o.path+ballastSuffix, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteAt(append(text, 0), 0)
	_ = f.Close()
}

func (o *Outbox) readAccountCopy() (c counts, ok bool) {
	f, err := os.Open(o.path + ballastSuffix)
	if err != nil {
		return c, false
	}
	defer f.Close() //nolint:errcheck // the file was only read
	text := make([]byte, accountCopyBytes)
	n, _ := f.ReadAt(text, 0)
	named := map[string]int64{}
	for i, char := range text[:n] {
		if char == 0 {
			ok = json.Unmarshal(text[:i], &named) == nil
			break
		}
	}
	for name, value := range named {
		c.set(name, value)
	}
	return c, ok && c.Admitted >= 0
}
