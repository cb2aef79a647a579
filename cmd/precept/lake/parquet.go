package lake

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	pzstd "github.com/parquet-go/parquet-go/compress/zstd"

	"precept/internal/session"
)

// Row group limits. Writers and readers hold a row group in memory.
const (
	parquetRows  = 65_536
	parquetBytes = 16 << 20  // string bytes
	parquetPage  = 128 << 10 // page size before compression
)

// Row is a sample as a row in a Parquet file. Fields that depend on the sample family are JSON.
type Row struct {
	SampleID     string  `parquet:"sample_id"`
	Family       string  `parquet:"sample_family,dict"`
	CreatedAt    int64   `parquet:"created_at,timestamp(millisecond)"`
	Tenant       string  `parquet:"tenant,dict"`
	Agent        string  `parquet:"agent,dict"`
	Session      string  `parquet:"session"`
	Model        string  `parquet:"model,dict"`
	Outcome      string  `parquet:"outcome,dict"`
	Source       string  `parquet:"feedback_source,dict"`
	Type         string  `parquet:"feedback_type,dict"`
	QualityLabel *string `parquet:"quality_label,dict,optional"` // null: unrated
	QualityScore float64 `parquet:"quality_score"`
	HumanLabel   string  `parquet:"human_feedback_label,dict"`
	Turns        int64   `parquet:"turns"`
	Input        string  `parquet:"input,json"`
	Output       string  `parquet:"output,json"`
	Feedback     string  `parquet:"feedback,json"`
	Meta         string  `parquet:"meta,json"`
	State        string  `parquet:"state,json"`
}

// pageCodec is a zstd codec with a window as large as a page, because the default window takes 8 MiB.
type pageCodec struct {
	pzstd.Codec
	encoder *zstd.Encoder
}

// Encode implements compress.Codec.
func (c *pageCodec) Encode(dst, src []byte) ([]byte, error) {
	return c.encoder.EncodeAll(src, dst[:0]), nil
}

// Writer writes samples to a Parquet file, in bounded row groups.
type Writer struct {
	w     *parquet.GenericWriter[Row]
	row   [1]Row // reused argument of Write
	rows  int    // rows in the open row group
	bytes int    // string bytes in the open row group
}

// NewWriter returns a Writer that writes one file to out.
func NewWriter(out io.Writer, extra ...parquet.WriterOption) (*Writer, error) {
	encoder, err := zstd.NewWriter(
		nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(parquetPage),
		zstd.WithZeroFrames(true), zstd.WithEncoderCRC(false),
	)
	if err != nil {
		return nil, err
	}
	options := []parquet.WriterOption{
		parquet.Compression(&pageCodec{encoder: encoder}), parquet.PageBufferSize(parquetPage),
		parquet.CreatedBy("precept", "", ""),
	}
	for _, column := range []string{"session", "input", "output", "feedback", "meta", "state"} {
		options = append(options, parquet.SkipPageBounds(column)) // bounds for long strings enlarge the footer
	}
	return &Writer{w: parquet.NewGenericWriter[Row](out, append(options, extra...)...)}, nil
}

// Add writes a sample.
func (w *Writer) Add(s *session.StoredSample) error {
	row, err := toRow(s)
	if err != nil {
		return err
	}
	return w.write(&row)
}

func (w *Writer) write(row *Row) error {
	w.row[0] = *row
	if _, err := w.w.Write(w.row[:]); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	w.bytes += row.size()
	if w.rows++; w.rows < parquetRows && w.bytes < parquetBytes {
		return nil
	}
	return w.flush()
}

func toRow(s *session.StoredSample) (Row, error) {
	row := Row{
		SampleID: s.Sample.ID, Family: s.Sample.Family, CreatedAt: s.Sample.CreatedAt.UnixMilli(),
		Tenant: s.Tenant, Agent: s.Agent, Session: s.ID.String(),
		Model: toString(s.Sample.Meta["model"]), Outcome: toString(s.Sample.Output["outcome"]),
		Source: s.Sample.Feedback.Source, Type: s.Sample.Feedback.Type,
		QualityScore: toFloat(s.Sample.Meta["quality_score"]),
		HumanLabel:   toString(s.Sample.Meta["human_feedback_label"]), Turns: int64(toFloat(s.Sample.Meta["turns"])),
	}
	if s.Sample.Feedback.QualityLabel != "" {
		row.QualityLabel = &s.Sample.Feedback.QualityLabel
	}
	for _, part := range []struct {
		to   *string
		from any
	}{{&row.Input, s.Sample.Input}, {&row.Output, s.Sample.Output}, {&row.Feedback, s.Sample.Feedback}, {&row.Meta, s.Sample.Meta}, {&row.State, s.Sample.State}} {
		text, err := json.Marshal(part.from)
		if err != nil {
			return row, fmt.Errorf("sample %s: %w", s.Sample.ID, err)
		}
		*part.to = string(text)
	}
	return row, nil
}

// size returns the length of the long strings.
func (r *Row) size() int {
	return len(r.Input) + len(r.Output) + len(r.Feedback) + len(r.Meta) + len(r.State)
}

func (w *Writer) flush() error {
	w.rows, w.bytes, w.row[0] = 0, 0, Row{}
	if err := w.w.Flush(); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return nil
}

// Close writes the last row group and the footer. Without the footer, the file cannot be read.
func (w *Writer) Close() error {
	if err := w.w.Close(); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return nil
}

func toString(v any) string {
	s, _ := v.(string)
	return s
}

// toFloat converts a number, which is a float64 in a sample from JSON and an int in a new sample.
func toFloat(v any) float64 {
	switch n := v.(type) {
	case float64:
		return n
	case int:
		return float64(n)
	}
	return 0
}
