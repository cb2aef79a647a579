package sample

import (
	"unicode/utf8"

	"precept/internal/wire"
)

// The functions in this file read the JSON that Encode writes, in one pass and without reflection. With reflection,
// reading took most of the time when a session closed. Other JSON is still read with encoding/json.

// read reads an exchange's JSON, and reports whether Encode could have written that JSON.
func (e *Exchange) read(data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	d := wire.NewDocument(data)
	d.Object(func(name string) {
		switch name {
		case "id":
			e.ID = d.Text()
		case "tenant":
			e.Tenant = d.Text()
		case "agent":
			e.Agent = d.Text()
		case "session":
			e.Session = d.Text()
		case "session_name":
			e.SessionName = d.Text()
		case "run":
			e.Run = d.Text()
		case "caller":
			e.Caller = d.Text()
		case "request_id":
			e.RequestID = d.Text()
		case "turn":
			e.Turn = d.Int()
		case "at":
			if text := d.Raw(); len(text) == 0 || text[0] != '"' || e.At.UnmarshalJSON(text) != nil {
				d.Fail()
			}
		case "dialect":
			e.Dialect = d.Text()
		case "model":
			e.Model = d.Text()
		case "status":
			e.Status = d.Int()
		case "outcome":
			e.Outcome = d.Text()
		case "new": // must be empty, because the items are in Encoded.Items
			d.Array(d.Fail)
		case "new_from":
			e.FirstNew = d.Int()
		case "reply":
			e.Reply.read(d)
		case "lessons":
			e.Lessons = readList(d, (*Lesson).read)
		case "loops":
			e.Loops = d.Int()
		case "verdicts":
			e.ResultJudgements = readResultJudgements(d)
		case "latency_ms":
			e.LatencyMS = d.Float()
		case "first_byte_ms":
			e.FirstByteMS = d.Float()
		case "book":
			e.Book = d.Text()
		case "config":
			e.Config = d.Text()
		case "redacted":
			e.Redacted = map[string]int{}
			d.Object(func(name string) { e.Redacted[name] = d.Int() })
		case "truncated":
			e.Truncated = readTrue(d)
		case "prompt":
			e.HasPrompt = readTrue(d)
		default:
			d.Fail()
		}
	})
	return d.Done()
}

func (r *Reply) read(d *wire.Document) {
	d.Object(func(name string) {
		switch name {
		case "id":
			r.ID = d.Text()
		case "text":
			r.Text = d.Text()
		case "calls":
			r.Calls = readList(d, (*Call).read)
		case "finish":
			r.Finish = d.Text()
		case "error":
			r.Error = d.Text()
		case "input_tokens":
			r.InputTokens = d.Int()
		case "cached_tokens":
			r.CachedTokens = d.Int()
		case "cache_write_tokens":
			r.Written = d.Int()
		case "cache_write_1h_tokens":
			r.WrittenHour = d.Int()
		case "output_tokens":
			r.OutputTokens = d.Int()
		case "choices":
			r.Choices = d.Int()
		default:
			d.Fail()
		}
	})
}

func (c *Call) read(d *wire.Document) {
	d.Object(func(name string) {
		switch name {
		case "id":
			c.ID = d.Text()
		case "name":
			c.Name = d.Text()
		case "args":
			c.Args = d.Text()
		default:
			d.Fail()
		}
	})
}

func (l *Lesson) read(d *wire.Document) {
	d.Object(func(name string) {
		switch name {
		case "slug":
			l.Slug = d.Text()
		case "arm":
			l.Arm = d.Text()
		case "state":
			l.State = d.Text()
		case "propensity":
			l.Propensity = d.Float()
		default:
			d.Fail()
		}
	})
}

func readResultJudgements(d *wire.Document) *ResultJudgements {
	v := &ResultJudgements{}
	d.Object(func(name string) {
		switch name {
		case "results":
			v.Results = d.Int()
		case "failed":
			v.Failed = readList(d, func(index *int, d *wire.Document) { *index = d.Int() })
		default:
			d.Fail()
		}
	})
	return v
}

func readList[T any](d *wire.Document, read func(*T, *wire.Document)) []T {
	list := []T{}
	d.Array(func() {
		list = append(list, *new(T))
		read(&list[len(list)-1], d)
	})
	return list
}

// readTrue reads a member that is always true, because Encode leaves out false.
func readTrue(d *wire.Document) bool {
	if string(d.Raw()) != "true" {
		d.Fail()
	}
	return true
}
