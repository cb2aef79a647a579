package admin

import (
	"time"

	"precept/configs"
	"precept/store"
)

// Health is how precept itself does. Every count says since when it is: the account since the data
// directory began, the others since this start.
type Health struct {
	Version  string            `json:"version"`
	Revision string            `json:"revision,omitempty"`
	Go       string            `json:"go"`
	PID      int               `json:"pid"`
	Started  time.Time         `json:"started"`
	Figures  []Figure          `json:"figures"` // what the service says of itself in short
	Account  Account           `json:"account"`
	Spool    Spool             `json:"spool"`
	Store    Stored            `json:"store"`
	Since    Since             `json:"since_start"`
	Config   []configs.Setting `json:"config"`
	Hash     string            `json:"config_hash"` // as samples name it
	Fault    string            `json:"config_fault,omitempty"`
	Audit    []Noted           `json:"audit"` // the newest actions
}

// Account is what became of every exchange: Admitted = Stored + Spooled + Incomplete + Dropped.
type Account struct {
	store.Account
	Balanced  bool   `json:"balanced"`
	Unsampled int64  `json:"unsampled"`       // stored, of closed sessions, and no sample tells of them
	SetAside  int    `json:"set_aside"`       // sessions and exchanges at which a step panicked
	Trouble   string `json:"error,omitempty"` // why there is no account, or not all of it
}

// Spool is the write-ahead log.
type Spool struct {
	Dir     string  `json:"dir,omitempty"` // "": there is none
	Bytes   int64   `json:"bytes"`
	Limit   int64   `json:"limit_bytes"`
	Waiting int64   `json:"waiting_exchanges"` // in memory, not in the spool yet
	Lag     float64 `json:"lag_seconds"`       // how long the oldest that the store does not have yet has waited; 0: nothing waits
}

// Stored is what the store holds.
type Stored struct {
	Kind    string           `json:"kind"` // sqlite, redis or memory
	Healthy bool             `json:"healthy"`
	Notice  string           `json:"notice,omitempty"`
	Counts  map[string]int64 `json:"counts"`
	Trouble string           `json:"error,omitempty"`
}

// Since are sums since the start.
type Since struct {
	Exchanges   int64            `json:"exchanges_stored"`
	Samples     int64            `json:"samples_written"` // a sample that is made anew because something was said of it counts again
	Closed      int64            `json:"sessions_closed"`
	Told        int64            `json:"sessions_told"`
	OptedOut    int64            `json:"opted_out"`
	Redactions  int64            `json:"redactions"`
	Incomplete  int64            `json:"incomplete"`
	WriteErrors int64            `json:"write_errors"`
	Dropped     map[string]int64 `json:"dropped"` // by reason
	InMemory    int              `json:"sessions_in_memory"`
}

// Noted is one action. What it was done to is named by slug or by id: a session that was forgotten
// must not live on by the name that its client gave it.
type Noted struct {
	At     time.Time `json:"at"`
	Who    string    `json:"who"` // the address, and whether a browser's session or a program's token vouched for it
	Action string    `json:"action"`
	Detail string    `json:"detail,omitempty"`
	Status int       `json:"status"` // of the answer: what failed is noted as well
}
