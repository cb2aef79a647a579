package file_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"precept/internal/file"
)

// If the write fails, Replace keeps the old content.
func ExampleReplace() {
	dir, err := os.MkdirTemp("", "file")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "sub", "lesson.md")
	replace := func(text string, fault error) error {
		return file.Replace(path, 0o600, func(w io.Writer) error {
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
			return fault
		})
	}
	fmt.Println(replace("old", nil))
	fmt.Println(errors.Is(replace("ne", io.ErrUnexpectedEOF), io.ErrUnexpectedEOF))
	text, err := file.Read(path)
	fmt.Println(string(text), err)
	// Output:
	// <nil>
	// true
	// old <nil>
}
