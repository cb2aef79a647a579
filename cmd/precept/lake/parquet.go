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

// The bounds of a row group: the writer holds one group in memory, and a reader reads one group at
// once. A group of many rows keeps the footer small, because the footer has an entry for each
// column of each group.
const (
	parquetRows  = 65_536
	parquetBytes = 16 << 20
	parquetPage  = 128 << 10 // bytes of a column before compression
)

// Row is a sample as a row of a Parquet file. Fields for filters have columns; all other fields are
// JSON texts, because the families of samples have different fields.
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

// pageCodec compresses pages with a window of the size of a page. The window of the library has 8
// MiB, and its history twice as much.
type pageCodec struct {
	pzstd.Codec
	encoder *zstd.Encoder
}

// Encode implements compress.Codec.
func (c *pageCodec) Encode(dst, src []byte) ([]byte, error) {
	return c.encoder.EncodeAll(src, dst[:0]), nil
}

// Writer writes samples as a Parquet file, in row groups of bounded size.
type Writer struct {
	w     *parquet.GenericWriter[Row]
	row   [1]Row
	rows  int // rows in the open row group
	bytes int
}

// NewWriter returns a writer of one file.
func NewWriter(out io.Writer, more ...parquet.WriterOption) (*Writer, error) {
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
		options = append(options, parquet.SkipPageBounds(column)) // bounds of texts help no query and make the footer large
	}
	return &Writer{w: parquet.NewGenericWriter[Row](out, append(options, more...)...)}, nil
}

// Add writes a sample.
func (p *Writer) Add(s *session.StoredSample) error {
	row, err := toRow(s)
	if err != nil {
		return err
	}
	return p.write(&row)
}

// write writes a row.
func (p *Writer) write(row *Row) error {
	p.row[0] = *row
	if _, err := p.w.Write(p.row[:]); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	p.bytes += row.size()
	if p.rows++; p.rows < parquetRows && p.bytes < parquetBytes {
		return nil
	}
	return p.flush()
}

// toRow returns a sample as a row.
func toRow(s *session.StoredSample) (Row, error) {
	row := Row{
		SampleID: s.Sample.ID, Family: s.Sample.Family, CreatedAt: s.Sample.CreatedAt.UnixMilli(),
		Tenant: s.Tenant, Agent: s.Agent, Session: s.ID.String(),
		Model: textOf(s.Sample.Meta["model"]), Outcome: textOf(s.Sample.Output["outcome"]),
		Source: s.Sample.Feedback.Source, Type: s.Sample.Feedback.Type,
		QualityScore: numberOf(s.Sample.Meta["quality_score"]),
		HumanLabel:   textOf(s.Sample.Meta["human_feedback_label"]), Turns: int64(numberOf(s.Sample.Meta["turns"])),
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

// size returns the bytes of the texts of a row, which are nearly the whole row.
func (r *Row) size() int {
	return len(r.Input) + len(r.Output) + len(r.Feedback) + len(r.Meta) + len(r.State)
}

// flush ends a row group, so that the writer frees the memory of the group.
func (p *Writer) flush() error {
	p.rows, p.bytes, p.row[0] = 0, 0, Row{}
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return nil
}

// End writes the rest and the footer, without which the file cannot be read.
func (p *Writer) End() error {
	if err := p.w.Close(); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return nil
}

func textOf(v any) string {
	s, _ := v.(string)
	return s
}

// numberOf returns a number of a sample as float64. A sample that was read from JSON holds float64, a new
// sample holds integers.
func numberOf(v any) float64 {
	switch n := v.(type) {
	case float64:
		return n
	case int:
		return float64(n)
	}
	return 0
}
