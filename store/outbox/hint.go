package outbox

import (
	"encoding/json"
	"os"
)

// The ballast is the file that reserves disk space. Its first bytes hold a copy of the account, which is not
// synced. If a damaged file or a truncated write-ahead log has lost the newest rows, the file looks like an
// older, undamaged file. At a start the copy of the account shows this loss.

// hintBytes is the room for the copy.
const hintBytes = 4096

// writeHint writes the copy of the account. The caller holds mu.
func (b *Outbox) writeHint() {
	if !b.ballast {
		return
	}
	text, err := json.Marshal(b.storedCounts.byName())
	if err != nil || len(text) >= hintBytes {
		return
	}
	f, err := os.OpenFile(b.path+BallastSuffix, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteAt(append(text, 0), 0) // only a hint; a failed write is harmless
	_ = f.Close()
}

// readHint reads the copy of the account; ok is false if there is no copy.
func (b *Outbox) readHint() (c counts, ok bool) {
	f, err := os.Open(b.path + BallastSuffix)
	if err != nil {
		return c, false
	}
	defer f.Close() //nolint:errcheck // the file was only read
	text := make([]byte, hintBytes)
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
