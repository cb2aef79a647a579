package admin

import (
	"time"

	"precept/configs"
	"precept/store"
)

// Health is precept's state. The counts in Account begin when the data directory is created, those in SinceStart when
// the server starts.
type Health struct {
	Version     string            `json:"version"`
	Revision    string            `json:"revision,omitempty"`
	Go          string            `json:"go"`
	PID         int               `json:"pid"`
	Started     time.Time         `json:"started"`
	Figures     []Figure          `json:"figures"` // summary figures
	Account     Account           `json:"account"`
	Outbox      Outbox            `json:"spool"`
	Store       StoreInfo         `json:"store"`
	SinceStart  SinceStart        `json:"since_start"`
	Config      []configs.Setting `json:"config"`
	Hash        string            `json:"config_hash"`            // the same as config_hash in samples
	ReloadError string            `json:"config_fault,omitempty"` // last reload's error; empty: none
	Audit       []AuditEntry      `json:"audit"`                  // the newest actions
}

// Account counts every exchange: Admitted = Stored + Spooled + Incomplete + Dropped.
type Account struct {
	store.Account
	Balanced  bool   `json:"balanced"`
	Unsampled int64  `json:"unsampled"`       // stored exchanges in closed sessions without a sample
	SetAside  int    `json:"set_aside"`       // sessions and exchanges left unprocessed, because they made a step panic
	Problem   string `json:"error,omitempty"` // why the account is missing or incomplete
}

// Outbox is the durable queue before the store.
type Outbox struct {
	Dir     string  `json:"dir,omitempty"` // empty without a directory
	Bytes   int64   `json:"bytes"`
	Limit   int64   `json:"limit_bytes"`
	Waiting int64   `json:"waiting_exchanges"` // exchanges in memory that are not in the outbox yet
	Lag     float64 `json:"lag_seconds"`       // age of the oldest exchange that the store does not have yet; 0 if none
}

// StoreInfo describes what the store holds.
type StoreInfo struct {
	Kind    string           `json:"kind"` // sqlite, redis or memory
	Healthy bool             `json:"healthy"`
	Notice  string           `json:"notice,omitempty"`
	Counts  map[string]int64 `json:"counts"`
	Problem string           `json:"error,omitempty"`
}

// SinceStart holds counts since the server started.
type SinceStart struct {
	Exchanges   int64            `json:"exchanges_stored"`
	Samples     int64            `json:"samples_written"` // a sample rebuilt after feedback counts again
	Closed      int64            `json:"sessions_closed"`
	Rewarded    int64            `json:"sessions_told"`
	OptedOut    int64            `json:"opted_out"`
	Redactions  int64            `json:"redactions"`
	Incomplete  int64            `json:"incomplete"`
	WriteErrors int64            `json:"write_errors"`
	Dropped     map[string]int64 `json:"dropped"` // dropped exchanges by reason
	InMemory    int              `json:"sessions_in_memory"`
}

// AuditEntry is one audit log entry. AuditEntry names sessions by id, because names from clients are personal data and
// must not outlive the session.
type AuditEntry struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"who"` // client's address, browser or token, role, first digits of the token's digest
	Action string    `json:"action"`
	Detail string    `json:"detail,omitempty"`
	Status int       `json:"status"` // response status; failures are recorded, too
}
