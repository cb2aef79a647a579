//go:build !unix

package ledger

import (
	"context"
	"errors"
	"os"
)

func lock(context.Context, string) (func(), error) {
	return nil, errors.New("locking a ledger is not supported on this system")
}

func own(*os.File, string) error { return nil }
