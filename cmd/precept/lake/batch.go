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

// The window holds the ids of recent samples, which are not written again. A store delivers a sample again if Redis has
// lost the newest data, or if the session continues soon after the first delivery.
const (
	windowIDs   = 1 << 18 // ids in the window
	windowFiles = 1000    // recent files that Run loads ids from
)

// rowSize is a row's estimated memory in bytes, without long strings.
const rowSize = 512

// idWindow holds the newest sample ids in a lake.
type idWindow struct {
	ids    map[sampleKey]bool
	order  []sampleKey // ring buffer
	oldest int         // index of the oldest id once the ring is full
}

// sampleKey is the first 8 bytes of a sample id's SHA-256 hash.
type sampleKey [8]byte

func newSampleKey(id string) sampleKey {
	sum := sha256.Sum256([]byte(id))
	return sampleKey(sum[:8])
}

// loadWindow returns the ids in recent files that still exist.
func loadWindow(ctx context.Context, storage Storage, recent []recentFile) (*idWindow, error) {
	w := &idWindow{ids: map[sampleKey]bool{}}
	for _, f := range recent {
		data, _, err := storage.Get(ctx, f.Path)
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
			return nil, fmt.Errorf("%s/%s is not a Parquet file: %w; delete the file, or restore it from a backup", storage, f.Path, err)
		}
		for _, r := range rows {
			w.add(newSampleKey(r.SampleID))
		}
	}
	return w, nil
}

func (w *idWindow) add(k sampleKey) {
	if w.ids[k] {
		return
	}
	w.ids[k] = true
	if len(w.order) < windowIDs {
		w.order = append(w.order, k)
		return
	}
	delete(w.ids, w.order[w.oldest])
	w.order[w.oldest] = k
	w.oldest = (w.oldest + 1) % windowIDs
}

// batch holds the rows not yet written to the lake.
type batch struct {
	partitions map[string][]Row   // rows by partition folder
	ids        map[sampleKey]bool // sample ids
	positions  map[string]string  // each stream's position after the last row
	rows       int
	bytes      int // estimated memory of the rows
	firstAdded time.Time
}

func newBatch() *batch {
	return &batch{partitions: map[string][]Row{}, ids: map[sampleKey]bool{}, positions: map[string]string{}}
}

// add adds samples, except those with ids in the batch or in written.
func (b *batch) add(list []session.StoredSample, written *idWindow, now time.Time) error {
	if b.firstAdded.IsZero() {
		b.firstAdded = now
	}
	for i := range list {
		k := newSampleKey(list[i].Sample.ID)
		if b.ids[k] || written.ids[k] {
			continue
		}
		row, err := toRow(&list[i])
		if err != nil {
			return err
		}
		folder := partitionFolder(&row)
		b.ids[k] = true
		b.partitions[folder] = append(b.partitions[folder], row)
		b.rows++
		b.bytes += row.size() + rowSize
	}
	return nil
}

// files returns the sorted paths of the batch's files, one for each partition.
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

func (b *batch) fileRows(file string) []Row { return b.partitions[path.Dir(file)] }

func (b *batch) encode(file string) ([]byte, error) {
	var out bytes.Buffer
	// Readers of Hive partitions take the tenant from the path, and pyarrow rejects a column with a different type than
	// the partition key.
	w, err := NewWriter(&out, parquet.StructTag(`parquet:"-"`, "Tenant"))
	if err != nil {
		return nil, err
	}
	rows := b.fileRows(file)
	for i := range rows {
		if err := w.write(&rows[i]); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return out.Bytes(), err
}

// partitionFolder returns date=DATE/tenant=TENANT.
func partitionFolder(r *Row) string {
	return "date=" + time.UnixMilli(r.CreatedAt).UTC().Format(time.DateOnly) + "/tenant=" + encodeTenant(r.Tenant)
}

// maxTenantBytes bounds an encoded tenant, because file names have at most 255 bytes.
const maxTenantBytes = 200

// encodeTenant encodes a tenant as a partition key value, with %XX for special bytes, as in Hive and Spark.
//
// Capital letters are encoded, because some file systems ignore case. An encoded tenant longer than maxTenantBytes ends
// in a hash.
func encodeTenant(tenant string) string {
	var b []byte
	for i := range len(tenant) {
		c := tenant[i]
		isPlain := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' && i > 0
		if isPlain {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "%%%02X", c)
		}
	}
	if len(b) > maxTenantBytes {
		sum := sha256.Sum256([]byte(tenant))
		b = fmt.Appendf(bytes.TrimRight(b[:maxTenantBytes-40], "%0123456789ABCDEF"), "-%x", sum[:8])
	}
	return string(b)
}
