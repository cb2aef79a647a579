package outbox

import (
	"encoding/json"
	"os"
)

// The first bytes of the ballast hold a copy of the account. Nobody waits until the copy is on the
// disk. At a start it tells what the file's own account has lost: a file that is damaged, or whose
// write-ahead log is cut or gone, is otherwise a file of an earlier time.

// hintBytes is the room for the copy.
const hintBytes = 4096

// writeHint writes the copy. The caller has mu.
func (b *Outbox) writeHint() {
	if !b.ballast {
		return
	}
	text, err := json.Marshal(b.kept.named())
	if err != nil || len(text) >= hintBytes {
		return
	}
	f, err := os.OpenFile(b.path+Ballast, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteAt(append(text, 0), 0) // a hint, no more
	_ = f.Close()
}

// readHint reads the copy; ok is false where there is none.
func (b *Outbox) readHint() (c counts, ok bool) {
	f, err := os.Open(b.path + Ballast)
	if err != nil {
		return c, false
	}
	defer f.Close() //nolint:errcheck // it was only read
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
