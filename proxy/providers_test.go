package proxy_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"precept/proxy"
)

type provider struct {
	name, upstream string            // upstream is the path in the URL
	requests       map[string]string // path at the provider by requested path
}

func providers() []provider {
	openai := map[string]string{"/v1/chat/completions": "/v1/chat/completions", "/v1/responses": "/v1/responses", "/v1/models": "/v1/models"}
	withVersion := func(path string) map[string]string {
		return map[string]string{"/v1/chat/completions": path + "/chat/completions", "/v1/models": path + "/models"}
	}
	withoutVersion := func(path string) map[string]string {
		return map[string]string{"/chat/completions": path + "/chat/completions", "/models": path + "/models"}
	}
	return []provider{
		{"OpenAI", "/v1", openai},
		{"Anthropic", "", map[string]string{"/v1/messages": "/v1/messages", "/v1/messages/count_tokens": "/v1/messages/count_tokens", "/v1/models": "/v1/models"}},
		{"Anthropic with version", "/v1", map[string]string{"/v1/messages": "/v1/messages", "/v1/models": "/v1/models"}},
		{"Azure OpenAI, deployments", "", map[string]string{"/openai/deployments/gpt/chat/completions?api-version=2024-10-21": "/openai/deployments/gpt/chat/completions?api-version=2024-10-21"}},
		{"Azure OpenAI, v1", "/openai/v1", map[string]string{
			"/v1/chat/completions": "/openai/v1/chat/completions", "/openai/v1/responses?api-version=preview": "/openai/v1/responses?api-version=preview",
			"/openai/deployments/gpt/chat/completions?api-version=1": "/openai/deployments/gpt/chat/completions?api-version=1",
			"/openai/responses?api-version=1":                        "/openai/responses?api-version=1", "/openai/models?api-version=1": "/openai/models?api-version=1",
		}},
		{"Azure AI Foundry, Messages API", "/anthropic", map[string]string{"/v1/messages": "/anthropic/v1/messages", "/v1/messages/count_tokens": "/anthropic/v1/messages/count_tokens"}},
		{"OpenRouter", "/api/v1", map[string]string{"/v1/chat/completions": "/api/v1/chat/completions", "/api/v1/chat/completions": "/api/v1/chat/completions", "/v1/messages": "/api/v1/messages", "/api/v1/models": "/api/v1/models", "/v1/api/v1/chat/completions": "/api/v1/chat/completions"}},
		{"Gemini", "/v1beta/openai", withVersion("/v1beta/openai")},
		{"Vertex AI", "/v1/projects/p/locations/l/endpoints/openapi", withVersion("/v1/projects/p/locations/l/endpoints/openapi")},
		{"Bedrock", "/openai/v1", withVersion("/openai/v1")},
		{"Groq", "/openai/v1", withVersion("/openai/v1")},
		{"Mistral", "/v1", withVersion("/v1")},
		{"DeepSeek", "", map[string]string{"/v1/chat/completions": "/v1/chat/completions", "/chat/completions": "/chat/completions"}},
		{"DeepSeek, Messages API", "/anthropic", map[string]string{"/v1/messages": "/anthropic/v1/messages", "/anthropic/v1/messages": "/anthropic/v1/messages"}},
		{"Fireworks", "/inference/v1", withVersion("/inference/v1")},
		{"Together, xAI, Cerebras, vLLM, Ollama, LM Studio, LiteLLM", "/v1", withVersion("/v1")},
		{"Z.ai", "/api/paas/v4", withVersion("/api/paas/v4")},
		{"Z.ai, Messages API", "/api/anthropic", map[string]string{"/v1/messages": "/api/anthropic/v1/messages"}},
		{"Cohere", "/compatibility/v1", withVersion("/compatibility/v1")},
		{"DashScope", "/compatible-mode/v1", withVersion("/compatible-mode/v1")},
		{"Volcengine", "/api/v3", withVersion("/api/v3")},
		{"Cloudflare, any model", "/v1/account/gateway/compat", withVersion("/v1/account/gateway/compat")},
		{"Cloudflare, OpenAI", "/v1/account/gateway/openai", map[string]string{"/v1/responses": "/v1/account/gateway/openai/responses", "/v1/chat/completions": "/v1/account/gateway/openai/chat/completions"}},
		{"Cloudflare, Anthropic", "/v1/account/gateway/anthropic", map[string]string{"/v1/messages": "/v1/account/gateway/anthropic/v1/messages"}},
		{"llama.cpp", "", map[string]string{"/v1/chat/completions": "/v1/chat/completions", "/chat/completions": "/chat/completions", "/v1/messages": "/v1/messages", "/v1/models": "/v1/models"}},
		{"GitHub Models", "/inference", withoutVersion("/inference")},
		{"Databricks", "/serving-endpoints", withoutVersion("/serving-endpoints")},
		{"Perplexity", "", withoutVersion("")},
	}
}

func TestRequestReachesProviderPath(t *testing.T) {
	for _, p := range providers() {
		t.Run(p.name, func(t *testing.T) {
			var got string
			var body []byte
			up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				got = r.RequestURI
				body, _ = io.ReadAll(r.Body)
				_, _ = io.WriteString(w, chatReply("chatcmpl-1", "fine"))
			})
			flags := injectAll()
			flags["upstream"] = up.URL + p.upstream
			f := newFixture(t, up, t.TempDir(), newBook(t, "one: fix the build"), flags)
			for requested, want := range p.requests {
				method, sent := "POST", `{"max_tokens":9,"messages":[{"role":"user","content":"Please fix the build"}]}`
				inspected := !strings.Contains(requested, "models") && !strings.Contains(requested, "count_tokens")
				if !inspected {
					method, sent = "GET", ""
				} else if strings.Contains(requested, "responses") {
					sent = `{"input":"Please fix the build"}`
				}
				f.send(t, method, requested, http.Header{"Precept-Session": {p.name + requested}}, sent)
				if got != want {
					t.Errorf("%s was forwarded to %s, want %s", requested, got, want)
				}
				if inspected != strings.Contains(string(body), "[one]") {
					t.Errorf("%s: the upstream got %s, want lesson one: %t", requested, body, inspected)
				}
			}
		})
	}
}

func TestAzureDeploymentIsStoredAsModel(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, chatReply("chatcmpl-1", "fine"))
	})
	f := newFixture(t, up, "", nil, map[string]string{"upstream": up.URL})
	f.send(t, "POST", "/openai/deployments/our-gpt/chat/completions?api-version=1", http.Header{"Precept-Session": {"azure"}}, `{"messages":[{"role":"user","content":"Hello"}]}`)
	list := defaultTenantExchanges(t, f, "azure")
	if len(list) != 1 {
		t.Fatalf("exchanges = %+v, want 1 exchange", list)
	}
	if list[0].Model != "our-gpt" {
		t.Errorf(`Model = %q, want "our-gpt"`, list[0].Model)
	}
}

// If a known base path or API path occurs twice in a row, precept forwards it only once. The first occurrence can be at
// the end of the upstream's URL.
func TestRepeatedBasePathIsSentOnce(t *testing.T) {
	for _, tc := range []struct{ upstream, requested, want string }{
		{"https://a/v1", "/v1/v1/models", "/v1/models"},
		{"https://a/v1", "/v1/v1/v1/chat/completions", "/v1/chat/completions"},
		{"https://a", "/v1/v1/messages", "/v1/messages"},
		{"https://a/v1", "/v1/chat/completions/chat/completions", "/v1/chat/completions"},
		{"https://a/v1/chat/completions", "/v1/chat/completions", "/v1/chat/completions"},
		{"https://a/v1/messages/", "/v1/messages", "/v1/messages"},
		{"https://a/api/v1", "/api/v1/models", "/api/v1/models"},
		{"https://a/openai", "/openai/deployments/x/chat/completions", "/openai/deployments/x/chat/completions"},
		{"https://a/api", "/api/models", "/api/api/models"}, // /api is not a known base path
		{"https://a/v1", "/v1/v1beta/x", "/v1/v1beta/x"},
		{"https://a/v1", "/v1/v1", "/v1/v1"},
		{"https://a/v1", "/v1/files/responses/responses/content", "/v1/files/responses/responses/content"},
	} {
		target, err := proxy.NewTarget("x", tc.upstream)
		if err != nil {
			t.Fatal(err)
		}
		if got := target.Resolve(tc.requested, "", false).EscapedPath(); got != tc.want {
			t.Errorf("NewTarget(%q).Resolve(%q): path = %s, want %s", tc.upstream, tc.requested, got, tc.want)
		}
	}
}

func TestUnknownProviderPathIsLoggedOnce(t *testing.T) {
	var log strings.Builder
	target, err := proxy.NewTarget("x", "https://a/inference")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		target.WarnUnknown(func() *slog.Logger { return slog.New(slog.NewTextHandler(&log, nil)) }, "/v1/chat/completions", "/inference/v1/chat/completions")
	}
	if n := strings.Count(log.String(), "correct the agent's base URL"); n != 1 {
		t.Errorf("log lines with a remedy = %d, want 1", n)
	} else if !strings.Contains(log.String(), "sent=/inference/v1/chat/completions") {
		t.Errorf(`log = %q, want substring "sent=/inference/v1/chat/completions"`, log.String())
	}
}
