//go:build !unix

package lesson

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }
