package spool

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const segmentSuffix = ".spool"

// Place is an offset in a segment.
type Place struct {
	Segment uint64 `json:"segment"`
	Offset  int64  `json:"offset"`
}

// Before says whether a place comes before another.
func (p Place) Before(q Place) bool {
	return p.Segment < q.Segment || p.Segment == q.Segment && p.Offset < q.Offset
}

// segment is one file of the log.
type segment struct {
	n    uint64
	size int64
}

func (g segment) path(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("%016d", g.n)+segmentSuffix)
}

// segments lists a spool's files, in their order. What only looks like one is left alone.
func segments(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the spool: %w", err)
	}
	var out []segment
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		n, err := strconv.ParseUint(name, 10, 64)
		if !ok || err != nil || n == 0 || len(name) != 16 || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // released meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("list the spool: %w", err)
		}
		out = append(out, segment{n, info.Size()})
	}
	slices.SortFunc(out, func(a, b segment) int { return cmp.Compare(a.n, b.n) })
	return out, nil
}

// release deletes the segments that end before a place, and says how many bytes they were.
func release(dir string, until Place) (freed int64, err error) {
	segs, err := segments(dir)
	if err != nil {
		return 0, err
	}
	for _, seg := range segs {
		if seg.n >= until.Segment {
			break
		}
		if err := os.Remove(seg.path(dir)); err != nil {
			return freed, fmt.Errorf("delete a drained segment of the spool: %w", err)
		}
		freed += seg.size
	}
	return freed, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
