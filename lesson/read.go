package lesson

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// ReadDir reads the texts of a bank directory by name (relative to it, with slashes), without
// understanding them. Files that cannot be read, or are too large, are problems; a directory that
// does not exist has no texts. version changes with the files.
func ReadDir(dir string) (texts map[string][]byte, version string, problems []Problem, err error) {
	found, _, problems, err := list(dir)
	if err != nil {
		return nil, "", nil, fmt.Errorf("read the lessons: %w", err)
	}
	texts = make(map[string][]byte, len(found))
	for _, rel := range slices.Sorted(maps.Keys(found)) {
		raw, err := readFile(found[rel].path, found[rel].info)
		if err != nil {
			problems = append(problems, unread(found[rel].path, CodeInvalid, err, false))
			continue
		}
		texts[rel] = raw
	}
	return texts, versionOf(found), problems, nil
}

// DirVersion is the version of a directory as ReadDir tells it, without reading the files.
func DirVersion(dir string) (string, error) {
	found, _, _, err := list(dir)
	if err != nil {
		return "", fmt.Errorf("read the lessons: %w", err)
	}
	return versionOf(found), nil
}

func versionOf(found map[string]*entry) string {
	h := sha256.New()
	for _, rel := range slices.Sorted(maps.Keys(found)) {
		info := found[rel].info
		hashString(h, rel)
		hashString(h, strconv.FormatInt(info.Size(), 10)+" "+strconv.FormatInt(info.ModTime().UnixNano(), 10))
	}
	return hex.EncodeToString(h.Sum(nil))
}
