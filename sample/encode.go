package sample

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"precept/wire"
)

// AppendJSON appends the exchange as one line of JSON (without line feed) that encoding/json
// decodes to an equal exchange. It is written by hand because json.Marshal would validate and
// compact every captured item once more, which costs more than the rest of the capture. Items of
// New must be valid JSON; the proxy has checked the body they are of.
func (e *Exchange) AppendJSON(dst []byte) []byte {
	o := object{b: append(dst, '{')}
	o.str("id", e.ID)
	o.str("tenant", e.Tenant)
	o.str("agent", e.Agent)
	o.str("session", e.Session)
	o.str("session_name", e.SessionName)
	o.strIf("run", e.Run)
	o.str("request_id", e.RequestID)
	o.num("turn", e.Turn)
	o.time("at", e.At)
	o.str("dialect", e.Dialect)
	o.str("model", e.Model)
	o.num("status", e.Status)
	o.str("outcome", e.Outcome)
	o.key("new")
	o.b = appendItems(o.b, e.New)
	o.num("new_from", e.NewFrom)
	o.key("reply")
	o.b = e.Reply.appendJSON(o.b)
	if len(e.Lessons) > 0 {
		o.key("lessons")
		o.b = appendLessons(o.b, e.Lessons)
	}
	if e.Loops != 0 {
		o.num("loops", e.Loops)
	}
	o.float("latency_ms", e.LatencyMS)
	o.float("first_byte_ms", e.FirstMS)
	o.strIf("book", e.Book)
	o.strIf("config", e.Config)
	if len(e.Redacted) > 0 {
		o.key("redacted")
		counts := object{b: append(o.b, '{')}
		for _, k := range slices.Sorted(maps.Keys(e.Redacted)) {
			counts.num(k, e.Redacted[k])
		}
		o.b = append(counts.b, '}')
	}
	if e.Truncated {
		o.key("truncated")
		o.b = append(o.b, "true"...)
	}
	return append(o.b, '}')
}

func appendItems(dst []byte, items []json.RawMessage) []byte {
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendRaw(dst, item)
	}
	return append(dst, ']')
}

func (r *Reply) appendJSON(dst []byte) []byte {
	o := object{b: append(dst, '{')}
	o.strIf("id", r.ID)
	o.strIf("text", r.Text)
	if len(r.Calls) > 0 {
		o.key("calls")
		o.b = append(o.b, '[')
		for i, c := range r.Calls {
			if i > 0 {
				o.b = append(o.b, ',')
			}
			call := object{b: append(o.b, '{')}
			call.strIf("id", c.ID)
			call.str("name", c.Name)
			call.str("args", c.Args)
			o.b = append(call.b, '}')
		}
		o.b = append(o.b, ']')
	}
	o.strIf("finish", r.Finish)
	o.strIf("error", r.Error)
	o.numIf("input_tokens", r.InputTokens)
	o.numIf("cached_tokens", r.CachedTokens)
	o.numIf("output_tokens", r.OutputTokens)
	o.numIf("choices", r.Choices)
	return append(o.b, '}')
}

func appendLessons(dst []byte, lessons []Lesson) []byte {
	dst = append(dst, '[')
	for i, l := range lessons {
		if i > 0 {
			dst = append(dst, ',')
		}
		o := object{b: append(dst, '{')}
		o.str("slug", l.Slug)
		o.str("arm", l.Arm)
		o.str("state", l.State)
		if l.Propensity != 0 {
			o.float("propensity", l.Propensity)
		}
		dst = append(o.b, '}')
	}
	return append(dst, ']')
}

// object is a JSON object being written; b ends in { or a complete member.
type object struct{ b []byte }

func (o *object) key(k string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(wire.AppendString(o.b, k), ':')
}

func (o *object) str(k, v string) {
	o.key(k)
	o.b = wire.AppendString(o.b, v)
}

func (o *object) strIf(k, v string) {
	if v != "" {
		o.str(k, v)
	}
}

func (o *object) num(k string, v int) {
	o.key(k)
	o.b = strconv.AppendInt(o.b, int64(v), 10)
}

func (o *object) numIf(k string, v int) {
	if v != 0 {
		o.num(k, v)
	}
}

// float writes 0 for what JSON cannot say.
func (o *object) float(k string, v float64) {
	o.key(k)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	o.b = strconv.AppendFloat(o.b, v, 'g', -1, 64)
}

func (o *object) time(k string, v time.Time) {
	o.key(k)
	o.b = append(o.b, '"')
	o.b = v.AppendFormat(o.b, time.RFC3339Nano)
	o.b = append(o.b, '"')
}

// appendRaw appends a JSON text without line breaks: inside strings they are escaped, so a raw one
// is white space.
func appendRaw(dst, raw []byte) []byte {
	if len(raw) == 0 {
		return append(dst, "null"...)
	}
	from := len(dst)
	dst = append(dst, raw...)
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return dst
	}
	for i, c := range dst[from:] {
		if c == '\n' || c == '\r' {
			dst[from+i] = ' '
		}
	}
	return dst
}
