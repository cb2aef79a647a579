package sqlite_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"precept/store/sqlite"
)

func fixedTime() time.Time { return time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC) }

func TestOpenRenamesGarbage(t *testing.T) {
	garbage := bytes.Repeat([]byte("not a database. "), 5000)
	for name, content := range map[string][]byte{"long text": garbage, "one byte": []byte("x"), "only a header": []byte("SQLite format 3\x00")} {
		t.Run(name, func(t *testing.T) {
			path := dbPath(t)
			for _, f := range []string{path, path + "-wal"} { // Open must rename an old write-ahead log together with the file
				if err := os.WriteFile(f, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := open(t, sqlite.Options{Path: path, Now: fixedTime})
			if n := s.Notice(); !strings.Contains(n, "precept.db.corrupt-20310203T040506Z") {
				t.Errorf("Notice: got %q, want the damaged file's new name", n)
			}
			mustWrite(t, s, rowBatch(1))
			for _, suffix := range []string{"", "-wal"} {
				aside, err := os.ReadFile(path + ".corrupt-20310203T040506Z" + suffix)
				if err != nil {
					t.Fatalf("renamed file with suffix %q: %v", suffix, err)
				}
				if !bytes.Equal(aside, content) {
					t.Errorf("renamed file with suffix %q: aside = %.60q, want %.60q", suffix, aside, content)
				}
			}
		})
	}
}

// If precept crashes at its first start, an empty file may be left. Open must accept this file.
func TestOpenAcceptsEmptyFile(t *testing.T) {
	path := dbPath(t)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, sqlite.Options{Path: path, Now: fixedTime})
	if n := s.Notice(); n != "" {
		t.Errorf("Notice for an empty file: got %q, want none", n)
	}
	mustWrite(t, s, rowBatch(1))
	if !hasSession(t, s, 1) {
		t.Error("session 1 was not found after writing it")
	}
}

func TestOpenRenamesFileWithDamagedPages(t *testing.T) {
	path := dbPath(t)
	s := open(t, sqlite.Options{Path: path})
	mustWrite(t, s, rowBatch(1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 100; i < len(file); i++ { // the header stays unchanged
		file[i] = byte(i)
	}
	for range 2 { // twice in one second, and the second Open must not overwrite the file that the first Open has renamed
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		s = open(t, sqlite.Options{Path: path, Now: fixedTime})
		if s.Notice() == "" {
			t.Error("Notice for a damaged file is empty, want a notice")
		}
		if hasSession(t, s, 1) {
			t.Error("the new database has a row from the damaged file")
		}
		mustWrite(t, s, rowBatch(2))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, suffix := range []string{"", "-2"} {
		aside, err := os.ReadFile(path + ".corrupt-20310203T040506Z" + suffix)
		if err != nil {
			t.Fatalf("renamed file with suffix %q: %v", suffix, err)
		}
		if !bytes.Equal(aside, file) {
			t.Errorf("renamed file with suffix %q: aside = %.60q, want %.60q", suffix, aside, file)
		}
	}
}

func TestFileReplacedInUseIsDetected(t *testing.T) {
	garbage := bytes.Repeat([]byte("garbage "), 10_000)
	for name, replace := range map[string]func(path string) error{
		"overwritten": func(path string) error { return os.WriteFile(path, garbage, 0o600) },
		"replaced by rename": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", garbage, 0o600), os.Rename(path+".new", path))
		},
		"removed": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			path := dbPath(t)
			s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			mustWrite(t, s, rowBatch(1))
			if err := replace(path); err != nil {
				t.Fatal(err)
			}
			if err := s.Write(t.Context(), rowBatch(2)); !errors.Is(err, sqlite.ErrCorrupt) {
				t.Errorf("Write after the file was replaced: got error %v, want sqlite.ErrCorrupt", err)
			}
			if err := s.Close(); !errors.Is(err, sqlite.ErrCorrupt) {
				t.Errorf("Close after the file was replaced: got error %v, want sqlite.ErrCorrupt", err)
			}
			if content, err := os.ReadFile(path); err == nil && !bytes.Equal(content, garbage) {
				t.Error("Write or Close changed the replaced file")
			}
			reopened := open(t, sqlite.Options{Path: path, Now: fixedTime})
			if (reopened.Notice() == "") != (name == "removed") {
				t.Errorf("Notice after the file was %s: got %q, want a notice unless the file was removed", name, reopened.Notice())
			}
			mustWrite(t, reopened, rowBatch(3))
		})
	}
}

// If the source of a mount is missing, a container runtime creates a directory at the path of the database file.
func TestOpenRefusesDirectoryAtPath(t *testing.T) {
	path := dbPath(t)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if !errors.Is(err, sqlite.ErrForeign) {
		t.Errorf("Open(directory): got error %v, want sqlite.ErrForeign", err)
	}
	checkErrorText(t, err, path, "write a file name")
	if info, err := os.Stat(path); err != nil {
		t.Error(err)
	} else if !info.IsDir() {
		t.Error("Stat(path) after Open: IsDir = false, want true")
	}
}

func TestReadOnlyOpenRefusesGarbage(t *testing.T) {
	path, garbage := dbPath(t), []byte("not a database")
	if err := os.WriteFile(path, garbage, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, ReadOnly: true})
	if !errors.Is(err, sqlite.ErrCorrupt) {
		t.Errorf("read-only Open(damaged file): got error %v, want sqlite.ErrCorrupt", err)
	}
	checkErrorText(t, err, path, "restore a copy of the file", "start `precept serve`")
	if content, err := os.ReadFile(path); err != nil {
		t.Error(err)
	} else if !bytes.Equal(content, garbage) {
		t.Errorf("content after a read-only Open = %.60q, want %.60q", content, garbage)
	}
}

func TestForeignAndNewerFilesAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name, stmt string
		want       error
		text       string
	}{
		{"another program's file", "CREATE TABLE t(x)", sqlite.ErrForeign, "write another file name"},
		{"file with another application id", "PRAGMA application_id = 7", sqlite.ErrForeign, "write another file name"},
		{"newer release's file", "PRAGMA application_id = 1886544752; PRAGMA user_version = 999", sqlite.ErrNewer, "upgrade precept"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := dbPath(t)
			if _, err := openRaw(t, path).ExecContext(t.Context(), tc.stmt); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, readOnly := range []bool{false, true} {
				_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, ReadOnly: readOnly})
				if !errors.Is(err, tc.want) {
					t.Errorf("Open with ReadOnly = %v: got error %v, want %v", readOnly, err, tc.want)
				}
				checkErrorText(t, err, tc.text, path)
			}
			if after, err := os.ReadFile(path); err != nil {
				t.Error(err)
			} else if !bytes.Equal(after, before) {
				t.Errorf("refused file after Open = %.60q, want %.60q", after, before)
			}
		})
	}
}
