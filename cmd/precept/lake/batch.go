package lake

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"

	"precept/internal/session"
)

// Bounds of the window of sample ids that are not written again. A store delivers a sample a second time
// after Redis has lost its newest data, or when a session continues, in both cases soon after the first time.
const (
	windowIDs   = 1 << 18 // maximum number of ids in the window
	windowFiles = 1000    // maximum number of files from which a start reads the ids
)

// rowSize is the memory of a row without its long texts, in bytes.
const rowSize = 512

// window holds the newest sample ids of a lake.
type window struct {
	ids   map[sampleKey]bool
	order []sampleKey // ring buffer of the ids
	next  int         // index of the oldest id once the ring is full
}

// sampleKey is the beginning of the hash of a sample id.
type sampleKey [8]byte

func keyOf(id string) sampleKey {
	sum := sha256.Sum256([]byte(id))
	return sampleKey(sum[:8])
}

// loadWindow reads the ids of the newest files. A file that was deleted or compacted is skipped.
func loadWindow(ctx context.Context, place Place, recent []recentFile) (*window, error) {
	w := &window{ids: map[sampleKey]bool{}}
	for _, f := range recent {
		data, _, err := place.Get(ctx, f.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rows, err := parquet.Read[struct {
			SampleID string `parquet:"sample_id"`
		}](bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return nil, fmt.Errorf("%s/%s is no Parquet file: %w; delete the file or restore the file from a backup", place, f.Path, err)
		}
		for _, r := range rows {
			w.add(keyOf(r.SampleID))
		}
	}
	return w, nil
}

// add adds an id, in place of the oldest id when the window is full.
func (w *window) add(k sampleKey) {
	if w.ids[k] {
		return
	}
	w.ids[k] = true
	if len(w.order) < windowIDs {
		w.order = append(w.order, k)
		return
	}
	delete(w.ids, w.order[w.next])
	w.order[w.next] = k
	w.next = (w.next + 1) % windowIDs
}

// batch holds the rows that were read and are not written yet, by partition.
type batch struct {
	partitions map[string][]Row
	ids        map[sampleKey]bool
	positions  map[string]string // position of each stream after the rows
	rows       int
	bytes      int
	since      time.Time // time of the first row
}

func newBatch() *batch {
	return &batch{partitions: map[string][]Row{}, ids: map[sampleKey]bool{}, positions: map[string]string{}}
}

// add adds the samples that the lake does not have.
func (b *batch) add(list []session.StoredSample, written *window, now time.Time) error {
	if b.since.IsZero() {
		b.since = now
	}
	for i := range list {
		k := keyOf(list[i].Sample.ID)
		if b.ids[k] || written.ids[k] {
			continue
		}
		row, err := toRow(&list[i])
		if err != nil {
			return err
		}
		folder := partition(&row)
		b.ids[k] = true
		b.partitions[folder] = append(b.partitions[folder], row)
		b.rows++
		b.bytes += row.size() + rowSize
	}
	return nil
}

// files returns the names of the files of a batch, in order. A name contains a hash of the rows of the file, the number
// of the batch and the attempt.
func (b *batch) files(number int64, attempt int) (names []string, err error) {
	for _, folder := range slices.Sorted(maps.Keys(b.partitions)) {
		sum := sha256.New()
		_, _ = fmt.Fprintln(sum, number, attempt)
		lines := json.NewEncoder(sum)
		for i := range b.partitions[folder] {
			if err := lines.Encode(&b.partitions[folder][i]); err != nil {
				return nil, err
			}
		}
		names = append(names, fmt.Sprintf("%s/part-%010d-%x.parquet", folder, number, sum.Sum(nil)[:8]))
	}
	return names, nil
}

// rowsOf returns the rows of a file.
func (b *batch) rowsOf(file string) []Row { return b.partitions[path.Dir(file)] }

// encode returns a partition as a Parquet file.
func (b *batch) encode(file string) ([]byte, error) {
	var out bytes.Buffer
	// Readers of Hive partitions take the tenant from the path, and pyarrow refuses a second column of
	// another type.
	w, err := NewWriter(&out, parquet.StructTag(`parquet:"-"`, "Tenant"))
	if err != nil {
		return nil, err
	}
	rows := b.rowsOf(file)
	for i := range rows {
		if err := w.write(&rows[i]); err != nil {
			return nil, err
		}
	}
	err = w.End()
	return out.Bytes(), err
}

// partition returns the folder of a row.
func partition(r *Row) string {
	return "date=" + time.UnixMilli(r.CreatedAt).UTC().Format(time.DateOnly) + "/tenant=" + folderOf(r.Tenant)
}

// maxFolder bounds the name of a folder: file systems permit 255 bytes.
const maxFolder = 200

// folderOf returns the name of a tenant as the value of a partition: lower-case letters, digits, '-', '_' and
// '.' stay, every other byte is %XX, as Hive and Spark write partitions. Capitals are %XX, because some
// disks do not distinguish them from lower-case letters. A long name ends in a hash.
func folderOf(tenant string) string {
	var b []byte
	for i := range len(tenant) {
		c := tenant[i]
		plain := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' && i > 0
		if plain {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "%%%02X", c)
		}
	}
	if len(b) > maxFolder {
		sum := sha256.Sum256([]byte(tenant))
		b = fmt.Appendf(bytes.TrimRight(b[:maxFolder-40], "%0123456789ABCDEF"), "-%x", sum[:8])
	}
	return string(b)
}
