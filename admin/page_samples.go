package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"precept/store"
)

// samplesView is the list of samples.
type samplesView struct {
	Query     store.SampleQuery
	Since     string
	Until     string
	Families  []choice
	Qualities []choice
	Rows      []sampleRow
	Next      string
	First     string
	Looked    int
	Filtered  bool
	Exports   []exportLink
}

// sampleRow is a sample, with what its preview shows.
type sampleRow struct {
	ID, Href, Agent, Family string
	At                      time.Time
	Asked, Answered         string
	Quality, Source, Tone   string
	JSON                    string
}

// exportLink is the selection in one of the formats.
type exportLink struct{ Format, Href, About string }

// samplesPage lists samples.
func (s *Server) samplesPage(c echo.Context) error {
	q, err := sampleQuery(c)
	v := samplesView{
		Query: q, Since: c.QueryParam("since"), Until: c.QueryParam("until"), Families: choices(families(), q.Families), Qualities: choices(qualities(), q.Quality),
	}
	if err != nil {
		return s.show(c, shown{Title: "samples", Main: v.html, Status: http.StatusBadRequest, Problem: sentence(err)})
	}
	list, err := s.options.Archive.BrowseSamples(c.Request().Context(), &q)
	if err != nil {
		err = s.archiveError(c, err)
		return s.show(c, shown{Title: "samples", Main: v.html, Status: statusOf(err), Problem: sentence(err)})
	}
	f := s.frame(c, shown{})
	for i := range list.Samples {
		v.Rows = append(v.Rows, sampleOf(&list.Samples[i], f))
	}
	v.Looked, v.Filtered = list.Looked, q.Lesson+q.Agent+q.Session+v.Since+v.Until != "" || len(q.Families)+len(q.Quality) > 0
	if list.Next != "" {
		v.Next = f.With("after", list.Next)
	}
	if q.After != "" {
		v.First = f.With("after", "")
	}
	if s.options.Export != nil {
		v.Exports = exports(&q, v.Since, v.Until)
	}
	return s.show(c, shown{Title: "samples", Main: v.html, Live: q.After == ""})
}

func sampleOf(m *store.SampleItem, f frame) sampleRow {
	r := sampleRow{
		ID: m.Sample.ID, Href: f.session(m.Session), Agent: m.Agent, Family: strings.ReplaceAll(m.Sample.Family, "_", " "), At: m.Sample.CreatedAt,
		Quality: m.Sample.Feedback.QualityLabel, Source: m.Sample.Feedback.Source + ", " + m.Sample.Feedback.Type,
		Asked: gist(m.Sample.Input), Answered: gist(m.Sample.Output),
	}
	if r.Quality == "" {
		r.Quality, r.Source = store.Unrated, ""
	}
	r.Tone = toneOf(r.Quality)
	text, err := json.MarshalIndent(&m.Sample, "", "  ")
	if err != nil {
		text = []byte("it cannot be shown: " + err.Error())
	}
	r.JSON = string(text)
	if len(r.JSON) > previewMost {
		r.JSON = strings.ToValidUTF8(r.JSON[:previewMost], "") + fmt.Sprintf("\n… %d further bytes; an export has them", len(r.JSON)-previewMost)
	}
	return r
}

// A preview shows so much of a sample, and its line so many characters of its input and output.
const (
	previewMost = 16 << 10
	gistMost    = 140
)

// gist is the longest text of a document's first floor, on one line: what was asked, or what came
// of it.
func gist(doc map[string]any) string {
	best := ""
	for _, k := range sortedKeys(doc) {
		if t, ok := doc[k].(string); ok && !strings.HasSuffix(k, "_id") && len(t) > len(best) {
			best = t
		}
	}
	out := []rune(strings.Join(strings.Fields(best), " "))
	if len(out) > gistMost {
		return string(out[:gistMost]) + "…"
	}
	return string(out)
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// exports are the links that write the selection.
func exports(q *store.SampleQuery, since, until string) []exportLink {
	about := map[string]string{
		"mplp": "the samples, as JSON lines", "openai": "conversations, as fine-tuning files have them", "preference": "pairs of a better and a worse answer",
		"experiment": "every coin and its outcome: anyone can compute the report again", "parquet": "the samples, as a Parquet file",
	}
	var out []exportLink
	for _, format := range ExportFormats() {
		if format == "experiment" && !ofDraws(q) {
			continue
		}
		p := url.Values{"format": {format}, "tenant": {q.Tenant}}
		for key, value := range map[string]string{"since": since, "until": until, "lesson": q.Lesson, "agent": q.Agent, "session": q.Session, "family": strings.Join(q.Families, ","), "quality": strings.Join(q.Quality, ",")} {
			if value != "" {
				p.Set(key, value)
			}
		}
		out = append(out, exportLink{format, address("/api/export", p), about[format]})
	}
	return out
}
