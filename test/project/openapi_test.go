package project

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"precept/test/harness"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"precept/admin"
	"precept/bandit/report"
	"precept/learn"
	"precept/store"
)

var update = flag.Bool("update", false, "rewrite the generated part of admin/openapi.yaml") //nolint:gochecknoglobals // a test flag

const generatedMark = "# The following schemas are generated from Go types"

// With the flag -update, the test rewrites the generated part of admin/openapi.yaml instead of checking it.
func TestOpenAPISchemasMatchTypes(t *testing.T) {
	file := filepath.Join(repo, "admin", "openapi.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(text), generatedMark)
	if !ok {
		t.Fatalf("%s lacks the line %q before the generated part", file, generatedMark)
	}
	rest := string(text[len(head):])
	line, _, _ := strings.Cut(rest, "\n")
	want := head + line + "\n" + newSchemas(t, responseTypes()...)
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // a source file
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Errorf("the generated part of %s differs from the types; go test ./test/project -run OpenAPI -update rewrites it", file)
	}
}

func responseTypes() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[report.Report](), reflect.TypeFor[report.Forecast](),
		reflect.TypeFor[store.SessionList](), reflect.TypeFor[store.Facets](), reflect.TypeFor[store.RunSessions](), reflect.TypeFor[admin.Traffic](), reflect.TypeFor[admin.Comparison](), reflect.TypeFor[admin.ViewList](), reflect.TypeFor[store.Transcript](), reflect.TypeFor[store.SampleList](), reflect.TypeFor[learn.ImportResult](), reflect.TypeFor[admin.Health](),
	}
}

type apiDescription struct {
	t                *testing.T
	doc              map[string]any
	compiler         *jsonschema.Compiler
	calledOperations map[string]bool // "METHOD /path status"
}

func parseDescription(t *testing.T, text string) *apiDescription {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	d := &apiDescription{t: t, doc: doc.(map[string]any), compiler: jsonschema.NewCompiler(), calledOperations: map[string]bool{}}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource("mem:///openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return d
}

// resolve follows the references in a JSON pointer. It returns the node, or nil if there is none, and a pointer to the
// node that contains no references.
func (d *apiDescription) resolve(pointer string) (any, string) {
	var node any = d.doc
	path := ""
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		m, ok := node.(map[string]any)
		if !ok {
			return nil, path
		}
		node = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		path += "/" + step
		if m, ok := node.(map[string]any); ok && m["$ref"] != nil {
			return d.resolve(strings.TrimPrefix(m["$ref"].(string), "#") + strings.TrimPrefix(pointer, path))
		}
	}
	return node, path
}

func escapePointer(step string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(step)
}

// check fails the test if a response does not match the description. path is a path in the description, such as
// /api/runs/{run}.
func (d *apiDescription) check(method, path string, res *http.Response, body []byte) {
	d.t.Helper()
	status := strconv.Itoa(res.StatusCode)
	operation := method + " " + path + " " + status
	d.calledOperations[operation] = true
	base := "/paths/" + escapePointer(path) + "/" + strings.ToLower(method) + "/responses/" + status
	if node, _ := d.resolve(base); node == nil {
		d.t.Errorf("%s: the description lacks this response, with body %s", operation, body)
		return
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	content, _ := d.resolve(base + "/content")
	if content == nil {
		if len(body) > 0 {
			d.t.Errorf("%s: got body %q, want no body, according to the description", operation, body)
		}
		return
	}
	media, _ := d.resolve(base + "/content/" + escapePointer(kind))
	if media == nil {
		d.t.Errorf("%s: the description lacks the Content-Type %q", operation, kind)
		return
	}
	if kind != "application/json" {
		return
	}
	_, schemaPointer := d.resolve(base + "/content/" + escapePointer(kind) + "/schema")
	schema, err := d.compiler.Compile("mem:///openapi.json#" + schemaPointer)
	if err != nil {
		d.t.Fatalf("%s: compile the schema: %v", operation, err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		d.t.Errorf("%s: decode the body: %v", operation, err)
		return
	}
	if err := schema.Validate(value); err != nil {
		d.t.Errorf("%s: body %s does not match the schema: %v", operation, body, err)
	}
}

// call sends a request to a running server and checks the response. For each parameter in path, values contains the
// name and the value, such as "run", "s1" for /api/runs/{run}.
func (d *apiDescription) call(base, method, path, token, body string, values ...string) []byte {
	d.t.Helper()
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return d.callWith(header, base, method, path, body, values...)
}

func (d *apiDescription) callWith(header http.Header, base, method, path, body string, values ...string) []byte {
	d.t.Helper()
	url, query, _ := strings.Cut(path, "?")
	template := url
	for i := 0; i+1 < len(values); i += 2 {
		url = strings.ReplaceAll(url, "{"+values[i]+"}", values[i+1])
	}
	if query != "" {
		url += "?" + query
	}
	req, err := http.NewRequestWithContext(d.t.Context(), method, base+url, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	d.check(method, template, res, got)
	return got
}

func TestOpenAPIResponsesMatchDescription(t *testing.T) {
	m := harness.NewModel(t, nil)
	p := harness.Start(t, t.TempDir(), append(harness.AlwaysInject(m, harness.LessonDir(t)), "--reward-close-after", "100ms", "--writ-trust", "own", "--hooks-gitlab", "hook-secret-of-the-test")...)
	const token = "e2e-token"
	_, text := harness.Get(t, p.AdminURL+"/api/openapi.yaml", token)
	d := parseDescription(t, text)
	d.call(p.AdminURL, "GET", "/api/openapi.yaml", token, "")
	d.call(p.DataURL, "GET", "/healthz", "", "")
	d.call(p.AdminURL, "GET", "/readyz", "", "")
	d.call(p.AdminURL, "GET", "/metrics", token, "")
	d.call(p.AdminURL, "GET", "/metrics", "", "")
	d.call(p.AdminURL, "GET", "/login", "", "")
	d.call(p.AdminURL, "POST", "/login", "", "")

	harness.Post(t, p.DataURL+"/v1/chat/completions", http.Header{"Precept-Session": {"s1"}}, `{"model":"m1","messages":[{"role":"user","content":"mend the build script"}]}`)
	d.call(p.DataURL, "POST", "/v1/feedback", "", `{"session_id":"s1","source":"user","type":"approval"}`)
	d.call(p.DataURL, "POST", "/v1/feedback", "", `[{"session_id":"s1","source":"user","type":"score","score":0.5},{"source":"user"}]`)
	d.call(p.DataURL, "POST", "/v1/feedback", "", `{"nonsense":1}`)
	d.call(p.DataURL, "POST", "/v1/feedback", "", `{"sample_id":"00000000-0000-4000-8000-000000000000","source":"user","type":"approval"}`)
	const merged = `{"object_kind":"merge_request","object_attributes":{"action":"merge","state":"merged","url":"https://gitlab.example/a/b/-/merge_requests/1","source_branch":"fix"},"project":{"web_url":"https://gitlab.example/a/b"}}`
	hook := func(secret string) http.Header {
		return http.Header{"X-Gitlab-Token": {secret}, "X-Gitlab-Event": {"Merge Request Hook"}, "X-Gitlab-Event-Uuid": {"1"}}
	}
	d.callWith(hook("hook-secret-of-the-test"), p.DataURL, "POST", "/v1/hooks/{id}", merged, "id", "gitlab")
	d.callWith(hook("another-secret"), p.DataURL, "POST", "/v1/hooks/{id}", merged, "id", "gitlab")

	var l struct{ ID string }
	if err := json.Unmarshal(d.call(p.DataURL, "POST", "/v1/lessons", "", `{"signature":"deploy fails","lesson_text":"Read the log first.","targets":[{"role":"reviewer"}]}`), &l); err != nil {
		t.Fatal(err)
	}
	d.call(p.DataURL, "POST", "/v1/lessons", "", `{"signature":"x"}`)
	d.call(p.DataURL, "POST", "/v1/lessons", "", `nonsense`)
	d.call(p.DataURL, "GET", "/v1/lessons?limit=1", "", "")
	d.call(p.DataURL, "GET", "/v1/lessons?limit=0", "", "")
	d.call(p.DataURL, "GET", "/v1/lessons/{id}", "", "", "id", l.ID)
	d.call(p.DataURL, "GET", "/v1/lessons/{id}", "", "", "id", "none")
	d.call(p.DataURL, "PATCH", "/v1/lessons/{id}", "", `{"lesson_text":"Read the whole log first."}`, "id", l.ID)
	d.call(p.DataURL, "DELETE", "/v1/lessons/{id}", "", "", "id", l.ID)

	d.call(p.AdminURL, "GET", "/api/report?provisional=true&what_if=0.2&explain=check-the-target", token, "")
	d.call(p.AdminURL, "GET", "/api/report", "", "")
	d.call(p.AdminURL, "GET", "/api/report?window=x", token, "")
	const actionPath = "/api/lessons/{slug}/{action}"
	d.call(p.AdminURL, "POST", actionPath, token, `{"picks":800,"dry_run":true}`, "slug", "check-the-target", "action", "trial")
	d.call(p.AdminURL, "POST", actionPath, token, "", "slug", "check-the-target", "action", "pause")
	d.call(p.AdminURL, "POST", actionPath, token, "", "slug", "none", "action", "pause")
	d.call(p.AdminURL, "POST", actionPath, token, `{"nonsense":1}`, "slug", "check-the-target", "action", "trial")
	callStoredData(d, p, token)
	d.call(p.AdminURL, "POST", "/api/forget", token, `{"session":"s1"}`)
	d.call(p.AdminURL, "POST", "/api/forget", token, `{}`)
	d.checkAllOperationsCalled()
}

// callStoredData calls the operations that need a stored session.
func callStoredData(d *apiDescription, p *harness.Process, token string) {
	d.t.Helper()
	harness.Eventually(d.t, "the closed session's sample", func() bool {
		var l store.SampleList
		p.GetAdmin(d.t, "/api/samples", &l)
		return len(l.Samples) > 0
	})
	d.call(p.AdminURL, "GET", "/api/sessions?limit=5&verdict=good", token, "")
	d.call(p.AdminURL, "GET", "/api/sessions?words=script&tool=x", token, "")
	d.call(p.AdminURL, "GET", "/api/sessions?after=nowhere!", token, "")
	d.call(p.AdminURL, "GET", "/api/sessions", "", "")
	d.call(p.AdminURL, "GET", "/api/facets?range=today&zone=%2B02:00", token, "")
	d.call(p.AdminURL, "GET", "/api/facets?range=never", token, "")
	d.call(p.AdminURL, "GET", "/api/traffic?range=7d&zone=%2B02:00", token, "")
	d.call(p.AdminURL, "GET", "/api/traffic?range=never", token, "")
	d.call(p.AdminURL, "GET", "/api/traffic", "", "")
	d.call(p.AdminURL, "GET", "/api/compare?by=model", token, "")
	d.call(p.AdminURL, "GET", "/api/compare?by=weather", token, "")
	d.call(p.AdminURL, "GET", "/api/compare", "", "")
	d.call(p.AdminURL, "GET", "/api/runs/{run}", token, "", "run", "s1")
	d.call(p.AdminURL, "GET", "/api/runs/{run}", token, "", "run", "nobody")
	d.call(p.AdminURL, "GET", "/api/runs/{run}", "", "", "run", "s1")
	d.call(p.AdminURL, "GET", "/api/views", token, "")
	d.call(p.AdminURL, "GET", "/api/views", "", "")
	d.call(p.AdminURL, "GET", "/api/export/sessions?format=csv", token, "")
	d.call(p.AdminURL, "GET", "/api/export/sessions?format=pdf", token, "")
	d.call(p.AdminURL, "GET", "/api/export/sessions", "", "")
	d.call(p.AdminURL, "GET", "/api/facets", "", "")
	d.call(p.AdminURL, "GET", "/api/sessions/{session}", token, "", "session", "s1")
	d.call(p.AdminURL, "GET", "/api/sessions/{session}", token, "", "session", "nobody")
	d.call(p.AdminURL, "GET", "/api/samples?quality=good,unrated", token, "")
	d.call(p.AdminURL, "GET", "/api/samples?family=x", token, "")
	d.call(p.AdminURL, "GET", "/api/export?format=openai", token, "")
	d.call(p.AdminURL, "GET", "/api/export?format=parquet", token, "")
	d.call(p.AdminURL, "GET", "/api/export?format=x", token, "")
	d.call(p.AdminURL, "GET", "/api/health", token, "")
	d.call(p.AdminURL, "POST", "/api/feedback", token, `{"session_id":"s1","source":"user","type":"approval"}`)
	d.call(p.AdminURL, "POST", "/api/feedback", token, `{"nonsense":1}`)
	d.call(p.AdminURL, "POST", "/api/import?agent=codex", token, `{"source":"ci","id":"1","reward":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`)
	d.call(p.AdminURL, "POST", "/api/import?at=never", token, `{}`)
	d.call(p.AdminURL, "POST", "/api/feedback", token, `{"sample_id":"00000000-0000-4000-8000-000000000000","source":"user","type":"approval"}`)
}

// If a schema accepted every value, the other tests would pass without checking anything.
func TestOpenAPISchemasRefuseInvalidValues(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repo, "admin", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d := parseDescription(t, string(text))
	for name, invalid := range map[string]string{
		"Fault": `{"error":1}`, "Refusal": `{"error":{"message":"x","type":"other"}}`, "Lesson": `{"id":"x"}`, "FeedbackAnswer": `{"status":"lost"}`,
		"Feedback": `{"source":"user","type":"approval","session_id":"a","request_id":"b"}`, "Report": `{"lessons":[]}`,
		"Trial": `{"epsilon":2}`, "NewLesson": `{"signature":""}`,
	} {
		schema, err := d.compiler.Compile("mem:///openapi.json#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(invalid))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(value) == nil {
			t.Errorf("schema %s accepts the invalid value %s", name, invalid)
		}
	}
}

// checkAllOperationsCalled fails the test for each described operation that no test has called successfully. For
// /login, a call without success is enough.
func (d *apiDescription) checkAllOperationsCalled() {
	d.t.Helper()
	for path, item := range d.doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			if _, isOp := op.(map[string]any); !isOp { // parameters, servers
				continue
			}
			called := false
			for operation := range d.calledOperations {
				if rest, ok := strings.CutPrefix(operation, strings.ToUpper(method)+" "+path+" "); ok && (rest[0] == '2' || path == "/login") {
					called = true
				}
			}
			if !called {
				d.t.Errorf("no successful call to %s %s", strings.ToUpper(method), path)
			}
		}
	}
}
