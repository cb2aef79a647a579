package outbox

import (
	"errors"
	"os"
)

// Ballast is the suffix of the file that keeps a place on the disk.
const Ballast = "-ballast"

const ballastBytes = 2 << 20

// makeBallast makes the ballast where there is none. The caller has mu.
func (b *Outbox) makeBallast() error {
	if b.ballast {
		return nil
	}
	path := b.path + Ballast
	if info, err := os.Stat(path); err != nil || info.Size() != ballastBytes {
		if err := os.WriteFile(path, make([]byte, ballastBytes), 0o600); err != nil {
			return errors.Join(err, os.Remove(path)) // half of it would keep no place
		}
		b.ballast = true
		b.writeHint()
	}
	b.ballast = true
	return nil
}

// dropBallast gives the ballast's room up. The caller has mu.
func (b *Outbox) dropBallast() {
	if b.ballast {
		b.ballast = os.Remove(b.path+Ballast) != nil
	}
}
