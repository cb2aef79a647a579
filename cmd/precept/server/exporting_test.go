//go:build !race

package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"precept/cmd/precept/lake"
	"precept/cmd/precept/server"
	"precept/internal/sample"
	"precept/internal/session"
)

// large is a store of a number of samples, each with a text of a megabyte.
type large struct {
	server.Evidence
	samples int
}

func (l large) EachSample(_ context.Context, _ string, _, _ time.Time, fn func(session.StoredSample) error) error {
	for i := range l.samples {
		s := session.StoredSample{Tenant: "default", Agent: "coder", Sample: sample.Sample{
			ID: fmt.Sprint("s-", i), Family: sample.DialogResponse, CreatedAt: time.UnixMilli(int64(i)),
			Input: map[string]any{"text": strings.Repeat("a", 1<<20)}, Meta: map[string]any{"turns": 2, "quality_score": 0.5},
		}}
		if err := fn(s); err != nil {
			return err
		}
	}
	return nil
}

// full is a disk on which so many bytes find room.
type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errors.New("no space left")
	}
	return len(b), nil
}

// An export as Parquet holds one row group at most: groups end at 16 MiB. A failed write is an
// error.
func TestParquetExportHasBoundedRowGroups(t *testing.T) {
	var out bytes.Buffer
	job := &server.ExportJob{Evidence: large{samples: 40}, Filter: &sample.Filter{}, Out: &out}
	if err := job.Write(t.Context(), "parquet"); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if groups := len(f.RowGroups()); groups != 3 || f.NumRows() != 40 {
		t.Errorf("%d rows in %d groups", f.NumRows(), groups)
	}
	rows, err := parquet.Read[lake.Row](bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil || len(rows) != 40 {
		t.Fatalf("got len(rows) %d, error %v, want no error and 40 entries in rows", len(rows), err)
	}
	for i, row := range rows {
		if row.SampleID != fmt.Sprint("s-", i) || row.CreatedAt != int64(i) || len(row.Input) < 1<<20 || row.Turns != 2 || row.QualityScore != 0.5 || row.QualityLabel != nil {
			t.Errorf("row %d: %s %d, %d bytes", i, row.SampleID, row.CreatedAt, len(row.Input))
		}
	}
	for _, room := range []int{0, 1000, out.Len() - 1} {
		job.Out = &full{room: room}
		if err := job.Write(t.Context(), "parquet"); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
	}
}
