package configs

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Config holds every key in precept.yaml. Struct tags hold the rules: enum lists the allowed words, min and max are
// bounds (nanoseconds for a duration). Keys tagged restart:"yes" change only at a restart; keys tagged restart:"on"
// need a restart only to be switched on.
type Config struct {
	Listen       string              `yaml:"listen" restart:"yes"`
	Admin        Admin               `yaml:"admin"`
	Upstream     string              `yaml:"upstream"`
	Upstreams    map[string]Upstream `yaml:"upstreams"`
	Routes       Routes              `yaml:"routes"`
	Tenancy      string              `yaml:"tenancy" enum:"single|by-credential|keys"`
	Keys         []Key               `yaml:"keys"`
	Store        Store               `yaml:"store"`
	DataDir      string              `yaml:"data_dir" restart:"yes"`
	Lessons      string              `yaml:"lessons" restart:"yes"`
	Tags         map[string][]string `yaml:"tags"`
	Match        Match               `yaml:"match"`
	Inject       Inject              `yaml:"inject"`
	Bandit       Bandit              `yaml:"bandit"`
	Detect       Detect              `yaml:"detect"`
	Learning     Learning            `yaml:"learning"`
	Reward       Reward              `yaml:"reward"`
	Rules        Rules               `yaml:"rules"`
	Report       Report              `yaml:"report"`
	Prices       []ModelPrice        `yaml:"prices"`
	Hooks        Hooks               `yaml:"hooks"`
	Distill      Distill             `yaml:"distill"`
	Writ         Writ                `yaml:"writ"`
	Ledger       Ledger              `yaml:"ledger"`
	Limits       Limits              `yaml:"limits"`
	Log          Log                 `yaml:"log"`
	Metrics      Metrics             `yaml:"metrics"`
	Otel         Otel                `yaml:"otel"`
	DebugHeaders bool                `yaml:"debug_headers"`
}

// Admin configures the admin listener and the dashboard's prices.
type Admin struct {
	Listen       string   `yaml:"listen" restart:"yes"`
	Tokens       []Secret `yaml:"tokens"`
	ViewerTokens []Secret `yaml:"viewer_tokens"`
	Hosts        []string `yaml:"hosts"`
	BasePath     string   `yaml:"base_path" restart:"yes"`
	SessionValue float64  `yaml:"session_value" min:"0"`
	Currency     string   `yaml:"currency"`
	PriceInput   float64  `yaml:"price_input" min:"0"`
	PriceCached  float64  `yaml:"price_cached" min:"0"`
}

// Upstream is one LLM API. The URL has the form of OPENAI_BASE_URL.
type Upstream struct {
	URL string `yaml:"url" alone:"yes"`
}

// Routes names the upstream for each API dialect; Other serves all other paths.
type Routes struct {
	Chat      string `yaml:"chat"`
	Responses string `yaml:"responses"`
	Messages  string `yaml:"messages"`
	Other     string `yaml:"other"`
}

// Key is a key that authenticates a client (tenancy: keys).
type Key struct {
	Name        string   `yaml:"name"`
	KeySHA256   string   `yaml:"key_sha256"`
	Tenant      string   `yaml:"tenant"`
	Agent       string   `yaml:"agent"`
	UpstreamKey Secret   `yaml:"upstream_key"`
	Learn       string   `yaml:"learn" enum:"on|off"` // "" is on
	Roles       []string `yaml:"roles"`
}

// Store selects the store; see Config.StoreURL.
type Store struct {
	URL Secret `yaml:"url" restart:"yes"`
}

// Match selects the texts in which lessons are matched. System lists the agents whose system prompts are searched.
type Match struct {
	System   []string `yaml:"system"`
	Like     string   `yaml:"like" enum:"on|suggest|off"`
	LikeRate float64  `yaml:"like_rate" min:"0" max:"0.1"`

	Embeddings Embeddings `yaml:"embeddings"`
}

// Embeddings names the API that embeds lessons and user words, for matches by meaning.
type Embeddings struct {
	Upstream string `yaml:"upstream" restart:"yes"`
	Model    string `yaml:"model" restart:"yes"`
	APIKey   Secret `yaml:"api_key" restart:"yes"`
}

// Values for match.like.
const (
	LikeOn      = "on"      // a match by likeness injects a lesson with like: true, and suggests any other lesson
	LikeSuggest = "suggest" // a match by likeness only suggests the lesson
	LikeOff     = "off"     // lessons match only exactly
)

// SystemAgents returns the agent name patterns in System. The entry "true" means every agent.
func (m *Match) SystemAgents() []string {
	var out []string
	for _, a := range m.System {
		switch b, err := parseBool(a); {
		case err != nil:
			out = append(out, a)
		case b:
			return []string{"*"}
		}
	}
	return out
}

// Inject configures the inserted block.
type Inject struct {
	K           int    `yaml:"k" min:"0" max:"20"`
	Style       string `yaml:"style" enum:"advice|pitfalls"`
	Placement   string `yaml:"placement" enum:"message|system"`
	BudgetBytes Size   `yaml:"budget_bytes" min:"256" max:"65536"`
	Cautions    bool   `yaml:"cautions"`
}

// Bandit configures the experiment and the chooser for a session's lessons.
type Bandit struct {
	Epsilon   float64 `yaml:"epsilon" min:"0" max:"1"`
	Holdout   string  `yaml:"holdout" enum:"prove|earn|fixed"`
	Retest    bool    `yaml:"retest"`
	Control   float64 `yaml:"control" min:"0" max:"1"`
	Objective string  `yaml:"objective" enum:"uplift|raw|random|all"`
	Salt      Secret  `yaml:"salt" restart:"yes"`
	TokenCost float64 `yaml:"token_cost" min:"0" max:"1"`
}

// Detect turns the warnings for agents on and off.
type Detect struct {
	Loops bool `yaml:"loops"`
}

// Learning configures how exchanges are stored.
type Learning struct {
	Enabled        bool          `yaml:"enabled" restart:"on"`
	AnonymizePII   bool          `yaml:"anonymize_pii"`
	OptOutPatterns []string      `yaml:"opt_out_patterns"`
	OptOutAgents   []string      `yaml:"opt_out_agents"`
	OptOutTenants  []string      `yaml:"opt_out_tenants"`
	CaptureLimit   Size          `yaml:"capture_limit" min:"1024"`
	Retention      time.Duration `yaml:"retention" min:"0"`
	Hot            time.Duration `yaml:"hot" min:"0"`
}

// Reward defines a session's reward and the age at which the session closes.
type Reward struct {
	CloseAfter time.Duration `yaml:"close_after" min:"1" restart:"yes"`
	Sentiment  bool          `yaml:"sentiment" restart:"yes"`
	Tiers      []string      `yaml:"tiers" enum:"user|verifier|implicit" restart:"yes"`
}

// Report configures the report. Next to the verdict, the report shows an increase in an outcome in Guardrails.
type Report struct {
	Guardrails []string `yaml:"guardrails" enum:"recurrence|errors|loops|corrections|turns|tokens|seconds"`
}

// ModelPrice holds the prices per million tokens for the models that match the pattern Model.
type ModelPrice struct {
	Model  string  `yaml:"model"`
	Input  float64 `yaml:"input" min:"0"`
	Cached float64 `yaml:"cached" min:"0"` // 0 means the input price
	Output float64 `yaml:"output" min:"0"`

	CacheWrite     float64 `yaml:"cache_write" min:"0"`    // 0 means 1.25 times the input price
	CacheWriteHour float64 `yaml:"cache_write_1h" min:"0"` // 0 means twice the input price
}

// Rules configures the experiments on sections of rules files such as CLAUDE.md.
type Rules struct {
	AtOnce int `yaml:"at_once" min:"1" max:"8"`
}

// Hooks holds the secrets for GitHub and GitLab webhooks.
type Hooks struct {
	GitHub []Hook `yaml:"github"`
	GitLab []Hook `yaml:"gitlab"`
}

// Hook is a webhook's secret and the tenant that owns the events.
type Hook struct {
	Tenant string `yaml:"tenant"` // "" means default
	Secret Secret `yaml:"secret" alone:"yes"`
}

// Distill configures the distiller.
type Distill struct {
	Enabled     bool          `yaml:"enabled" restart:"yes"`
	Every       time.Duration `yaml:"every" min:"1000000000" restart:"yes"`
	Judge       string        `yaml:"judge" restart:"yes"`
	Model       string        `yaml:"model" restart:"yes"`
	APIKey      Secret        `yaml:"api_key" restart:"yes"`
	Prompts     string        `yaml:"prompts" restart:"yes"`
	Parallel    int           `yaml:"parallel" min:"1" max:"64" restart:"yes"`
	MaxTokens   int           `yaml:"max_tokens" min:"0" restart:"yes"`
	MaxCost     float64       `yaml:"max_cost" min:"0" restart:"yes"`
	PriceInput  float64       `yaml:"price_input" min:"0" restart:"yes"`
	PriceOutput float64       `yaml:"price_output" min:"0" restart:"yes"`
	Gate        string        `yaml:"gate" enum:"human|auto" restart:"yes"`
}

// Writ configures assistants' /lesson commands.
type Writ struct {
	Enabled   bool   `yaml:"enabled"`
	Advertise bool   `yaml:"advertise"`
	Trust     string `yaml:"trust" enum:"quarantined|own"`
}

// Ledger configures the AGENT.md file, in which agents record failures. Entries become lessons.
type Ledger struct {
	File   string `yaml:"file" restart:"yes"`
	Tenant string `yaml:"tenant" restart:"yes"`
	Agent  string `yaml:"agent" restart:"yes"`
	Trust  string `yaml:"trust" enum:"quarantined|own" restart:"yes"`
}

// Limits bounds sizes, counts and durations.
type Limits struct {
	InspectBytes          Size          `yaml:"inspect_bytes" min:"0"`
	InspectTotalBytes     Size          `yaml:"inspect_total_bytes" min:"0"`
	Items                 int           `yaml:"items" min:"1"`
	Requests              int           `yaml:"requests" min:"1"`
	Sessions              int           `yaml:"sessions" min:"1" restart:"yes"`
	TenantSessions        int           `yaml:"tenant_sessions" min:"0" restart:"yes"`
	TenantBytes           Size          `yaml:"tenant_bytes" min:"0" restart:"yes"`
	TenantLessons         int           `yaml:"tenant_lessons" min:"0" restart:"yes"`
	Feedback              int           `yaml:"feedback" min:"1" restart:"yes"`
	BodyBytes             Size          `yaml:"body_bytes" min:"1"`
	CaptureBytes          Size          `yaml:"capture_bytes" min:"0"`
	CaptureTotalBytes     Size          `yaml:"capture_total_bytes" min:"0" restart:"yes"`
	CleanTextsBytes       Size          `yaml:"clean_texts_bytes" min:"0" restart:"yes"`
	ExchangesBytes        Size          `yaml:"exchanges_bytes" min:"0" restart:"yes"`
	OutboxBytes           Size          `yaml:"outbox_bytes" min:"1048576" restart:"yes"`
	HeaderTimeout         time.Duration `yaml:"header_timeout" min:"1" restart:"yes"`
	UpstreamHeaderTimeout time.Duration `yaml:"upstream_header_timeout" min:"1"`
	StreamIdleTimeout     time.Duration `yaml:"stream_idle_timeout" min:"1"`
	ClientWriteTimeout    time.Duration `yaml:"client_write_timeout" min:"1"`
	DrainDelay            time.Duration `yaml:"drain_delay" min:"0"`
	DrainTimeout          time.Duration `yaml:"drain_timeout" min:"0"`
	LookupTimeout         time.Duration `yaml:"lookup_timeout" min:"1" restart:"yes"`
}

// Log is the log level and format.
type Log struct {
	Level  string `yaml:"level" enum:"debug|info|warn|error"`
	Format string `yaml:"format" enum:"text|json" restart:"yes"`
}

// Metrics configures access to /metrics.
type Metrics struct {
	Public bool `yaml:"public"`
}

// Otel configures the trace export.
type Otel struct {
	Endpoint string   `yaml:"endpoint" restart:"yes"`
	Headers  []Secret `yaml:"headers" restart:"yes"`
	Sample   float64  `yaml:"sample" restart:"yes" min:"0" max:"1"`
}

// Header returns the headers for each export, from the "Name: value" entries in Headers.
func (o Otel) Header() (http.Header, error) {
	h := http.Header{}
	for i, line := range o.Headers {
		name, value, ok := strings.Cut(line.Reveal(), ":")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t") || strings.ContainsAny(value, "\r\n") {
			return nil, fmt.Errorf("has an entry that is not a header (entry %d); write \"Name: value\"", i+1)
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h, nil
}
