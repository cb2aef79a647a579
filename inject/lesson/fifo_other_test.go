//go:build !unix

package lesson_test

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }
