package feedback

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits for a post, in bytes. A bulk post has at most MaxBulk entries.
const (
	MaxID      = 256
	MaxComment = 16 << 10
	MaxJSON    = 64 << 10
	MaxBulk    = 1000
)

// keys lists the keys in the order of the documentation.
const keys = "id session_id run_id request_id response_id sample_id commit branch pull_request source type score quality_label comment correction rater details if_answered"

// Parse parses one object or an array (bulk). In bulk, posts[i] and errs[i] belong to the i-th entry, and a bad entry
// does not affect the others. err is set if the body is unreadable, or if a single post is refused.
func Parse(body []byte) (posts []Post, errs []error, bulk bool, err error) {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return nil, nil, false, errors.New("the body is empty: send one feedback object or an array")
	case !utf8.Valid(body):
		return nil, nil, false, errors.New("the body is not UTF-8; encode the feedback as UTF-8")
	case body[0] == '[':
		return parseBulk(body)
	}
	post, err := parseOne(body)
	if err != nil {
		return nil, nil, false, err
	}
	return []Post{post}, []error{nil}, false, nil
}

// parseBulk returns a post and an error for each object; the last result is the error for the whole array.
func parseBulk(body []byte) ([]Post, []error, bool, error) {
	var raws []json.RawMessage
	if err := json.Unmarshal(body, &raws); err != nil {
		return nil, nil, true, fmt.Errorf("the array is not valid JSON: %w", err)
	}
	if len(raws) == 0 {
		return nil, nil, true, errors.New("the array is empty: send at least one feedback object")
	}
	if len(raws) > MaxBulk {
		return nil, nil, true, fmt.Errorf("the array has %d entries; send at most %d in one request", len(raws), MaxBulk)
	}
	posts, errs := make([]Post, len(raws)), make([]error, len(raws))
	for i, raw := range raws {
		posts[i], errs[i] = parseOne(raw)
	}
	return posts, errs, true, nil
}

// keyAdvice names the key that an unknown key most likely means, such as session_id for session, or else all keys.
func keyAdvice(unknown string) string {
	for k := range strings.FieldsSeq(keys) {
		if strings.HasPrefix(k, unknown+"_") || strings.HasSuffix(k, "_"+unknown) {
			return "did you mean " + k + "?"
		}
	}
	return "known keys are: " + strings.ReplaceAll(keys, " ", ", ")
}

// parseOne parses one feedback object. It refuses an unknown key, because a misspelt key would lose a value.
func parseOne(raw []byte) (Post, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return Post{}, fmt.Errorf("feedback must be a JSON object: %w", err)
	}
	if fields == nil {
		return Post{}, errors.New("feedback must be a JSON object, not null")
	}
	f := fieldReader{fields: fields}
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(strings.Fields(keys), k) {
			return Post{}, fmt.Errorf("unknown key %q; %s", abbreviated(k), keyAdvice(k))
		}
	}
	var p Post
	p.Entry.ID = f.text("id", MaxID)
	p.SessionID, p.RequestID = f.text("session_id", MaxID), f.text("request_id", MaxID)
	p.RunID = f.text("run_id", MaxJSON) // the limit for a run name that the client sends
	p.ResponseID, p.SampleID = f.text("response_id", MaxID), f.text("sample_id", MaxID)
	p.Commit, p.Branch, p.PullRequest = f.text("commit", MaxID), f.text("branch", MaxID), f.text("pull_request", 2*MaxID)
	p.Entry.Source, p.Entry.Type = cmp.Or(f.oneOf("source", SourceUser, SourceSystem), SourceUser), f.oneOf("type", TypeApproval, TypeRejection, TypeCorrection, TypeScore)
	p.Entry.Label = f.oneOf("quality_label", labelGood, labelAcceptable, labelPoor)
	p.Entry.Comment, p.Entry.Rater = f.text("comment", MaxComment), f.text("rater", MaxID)
	p.Entry.Correction, p.Entry.Details = f.json("correction"), f.json("details")
	p.IfAnswered = f.flag("if_answered")
	score, scored := f.score()
	if f.err != nil {
		return Post{}, f.err
	}
	if err := p.checkTarget(); err != nil {
		return Post{}, err
	}
	if err := p.setScore(score, scored); err != nil {
		return Post{}, err
	}
	p.Entry.Tier = TierUser
	if p.Entry.Source == SourceSystem {
		p.Entry.Tier = TierVerifier
	}
	return p, nil
}

func (p *Post) checkTarget() error {
	var named []string
	for _, t := range []struct{ key, id string }{
		{"session_id", p.SessionID},
		{"run_id", p.RunID},
		{"request_id", p.RequestID},
		{"response_id", p.ResponseID},
		{"sample_id", p.SampleID},
		{"commit", p.Commit},
		{"branch", p.Branch},
		{"pull_request", p.PullRequest},
	} {
		if t.id != "" {
			named = append(named, t.key)
		}
	}
	switch len(named) {
	case 0:
		return errors.New("the feedback names no session; send exactly one of session_id, run_id, request_id, response_id, sample_id, commit, branch, pull_request")
	case 1:
		return nil
	}
	return fmt.Errorf("%s cannot be combined; send exactly one of them", strings.Join(named, " and "))
}

// setScore sets the type and the score. Every type except "score" implies a score, as does a quality label without a
// type. If the post also gives a score, that score is ignored, unless it is on the other side of 0.5, which is an
// error.
func (p *Post) setScore(score float64, scored bool) error {
	switch {
	case p.Entry.Type == TypeScore && !scored:
		return errors.New("type score needs a score between 0 and 1")
	case p.Entry.Type == TypeScore, p.Entry.Type == "" && scored:
		p.Entry.Type, p.Entry.Score = TypeScore, score
	case p.Entry.Type == "" && p.Entry.Label != "":
		p.Entry.Type, p.Entry.Score = TypeScore, labelScore(p.Entry.Label)
	case p.Entry.Type == "":
		return errors.New("the rating is missing; send a type (approval, rejection, correction or score), a score, or a quality_label")
	default:
		p.Entry.Score = ImpliedScore(p.Entry.Type)
		if scored && (p.Entry.Score == 1 && score < 0.5 || p.Entry.Score == 0 && score > 0.5) {
			return fmt.Errorf("type %s means score %v, but score is %v; leave score out, or send type score", p.Entry.Type, p.Entry.Score, score)
		}
	}
	if p.Entry.Label == labelGood && p.Entry.Score < 0.5 || p.Entry.Label == labelPoor && p.Entry.Score > 0.5 {
		return fmt.Errorf("quality_label %s contradicts %s; leave one out, or correct it", p.Entry.Label, p.ratingText(scored))
	}
	return nil
}

func (p *Post) ratingText(scored bool) string {
	if p.Entry.Type == TypeScore || scored {
		return fmt.Sprintf("score %v", p.Entry.Score)
	}
	return "type " + p.Entry.Type
}

// fieldReader reads a post's keys and keeps the first error. A null value means an absent key.
type fieldReader struct {
	fields map[string]json.RawMessage
	err    error
}

func (r *fieldReader) raw(key string) json.RawMessage {
	raw := r.fields[key]
	if string(raw) == "null" {
		return nil
	}
	return raw
}

func (r *fieldReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// text returns a key's value, or "" if the key is absent. A value that is not a string or is longer than limit bytes is
// an error, as is an empty value of any key except comment and rater.
func (r *fieldReader) text(key string, limit int) string {
	raw := r.raw(key)
	if raw == nil {
		return ""
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		r.fail("%s must be a string", key)
		return ""
	}
	if len(s) > limit {
		r.fail("%s is %d bytes long; the limit is %d bytes", key, len(s), limit)
		return ""
	}
	if s == "" && key != "comment" && key != "rater" {
		r.fail("%s is empty; leave the key out or give a value", key)
	}
	return s
}

func (r *fieldReader) oneOf(key string, allowed ...string) string {
	s := r.text(key, MaxID)
	if s != "" && !slices.Contains(allowed, s) {
		r.fail("%s is %q; it must be one of %s", key, abbreviated(s), strings.Join(allowed, ", "))
	}
	return s
}

func (r *fieldReader) json(key string) json.RawMessage {
	raw := r.raw(key)
	if len(raw) > MaxJSON {
		r.fail("%s is %d bytes long; the limit is %d bytes", key, len(raw), MaxJSON)
	}
	var b bytes.Buffer
	_ = json.Compact(&b, raw) // raw is part of parsed JSON, or empty
	return b.Bytes()
}

func (r *fieldReader) score() (float64, bool) {
	raw := r.raw("score")
	if raw == nil {
		return 0, false
	}
	var f float64
	if err := json.Unmarshal(raw, &f); err != nil {
		r.fail("score must be a number between 0 and 1")
		return 0, false
	}
	if f < 0 || f > 1 {
		r.fail("score is %v; it must be between 0 and 1", f)
	}
	return f, true
}

func (r *fieldReader) flag(key string) (on bool) {
	if raw := r.raw(key); raw != nil && json.Unmarshal(raw, &on) != nil {
		r.fail("%s must be true or false", key)
	}
	return on
}

func abbreviated(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "..."
	}
	return s
}
