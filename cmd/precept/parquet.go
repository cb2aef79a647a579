package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"precept/session"
)

// parquetRows bounds what the writer holds in memory; it is also how much a reader has to take in at once.
const parquetRows = 4096

// parquetSample is a row of a parquet export: what one filters by in columns of their own, the rest as JSON texts, since the
// families differ in their members.
type parquetSample struct {
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

// parquetExport writes samples as a parquet file, in row groups of bounded size.
type parquetExport struct {
	w    *parquet.GenericWriter[parquetSample]
	rows []parquetSample
}

func newParquetExport(out io.Writer) *parquetExport {
	return &parquetExport{w: parquet.NewGenericWriter[parquetSample](out,
		parquet.Compression(&zstd.Codec{}), parquet.MaxRowsPerRowGroup(parquetRows), parquet.CreatedBy("precept", "", ""))}
}

func (p *parquetExport) add(s *session.StoredSample) error {
	row := parquetSample{
		SampleID: s.Sample.ID, Family: s.Family, CreatedAt: s.CreatedAt.UnixMilli(), Tenant: s.Tenant, Agent: s.Agent, Session: s.ID.String(),
		Model: textOf(s.Meta["model"]), Outcome: textOf(s.Output["outcome"]), Source: s.Feedback.Source, Type: s.Feedback.Type,
		QualityScore: numberOf(s.Meta["quality_score"]), HumanLabel: textOf(s.Meta["human_feedback_label"]), Turns: int64(numberOf(s.Meta["turns"])),
	}
	if s.Feedback.QualityLabel != "" {
		row.QualityLabel = &s.Feedback.QualityLabel
	}
	for _, part := range []struct {
		to   *string
		from any
	}{{&row.Input, s.Input}, {&row.Output, s.Output}, {&row.Feedback, s.Feedback}, {&row.Meta, s.Meta}, {&row.State, s.State}} {
		text, err := json.Marshal(part.from)
		if err != nil {
			return fmt.Errorf("sample %s: %w", s.Sample.ID, err)
		}
		*part.to = string(text)
	}
	if p.rows = append(p.rows, row); len(p.rows) < parquetRows {
		return nil
	}
	return p.flush()
}

// flush ends a row group, so that the writer lets go of it.
func (p *parquetExport) flush() error {
	if len(p.rows) == 0 {
		return nil
	}
	_, err := p.w.Write(p.rows)
	if err == nil {
		err = p.w.Flush()
	}
	clear(p.rows)
	p.rows = p.rows[:0]
	if err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return nil
}

// end writes the rest and the footer, without which the file cannot be read.
func (p *parquetExport) end() error {
	if err := p.flush(); err != nil {
		return err
	}
	if err := p.w.Close(); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return nil
}

func textOf(v any) string {
	s, _ := v.(string)
	return s
}

// numberOf reads a number of a sample that was made here or came back from JSON.
func numberOf(v any) float64 {
	switch n := v.(type) {
	case float64:
		return n
	case int:
		return float64(n)
	}
	return 0
}
