package outbox

import (
	"encoding/json"
	"os"
)

// The ballast is the file that reserves disk space. Its first bytes hold a copy of the account, which is written
// after each transaction. If a damaged file or a truncated write-ahead log has lost the newest rows, the outbox file
// looks like an older, undamaged file. At the next start the copy of the account shows the loss. The copy is not
// synced, so that it may be old or missing.

// accountCopyBytes is the size of the part of the ballast that holds the copy.
const accountCopyBytes = 4096

// writeAccountCopy writes the copy of the account to the ballast. The caller holds mu.
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
	_, _ = f.WriteAt(append(text, 0), 0) // a failed write is harmless, because the copy may be old
	_ = f.Close()
}

// readAccountCopy reads the copy of the account from the ballast; ok is false if there is none.
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
