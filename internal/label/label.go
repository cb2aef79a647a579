// Package label declares the values for metric labels and log fields that name a step or a reason.
//
// For each type, a function lists all constants. The metrics create a series for each constant at startup, because
// Prometheus's increase() does not see a new series' first event.
package label

// Step is the value of the "step" label on precept_fail_open_total, and of a log field. The step failed, but the
// request went through.
type Step string

// Request steps, in turn order.
const (
	StepHandler     Step = "handler"  // HTTP handler
	StepTrace       Step = "trace"    // the turn's span
	StepParse       Step = "parse"    // the request body
	StepIdentify    Step = "identify" // finding the session
	StepLookup      Step = "lookup"   // reading the session from the store
	StepDecode      Step = "decode"   // decoding a stored session
	StepMatch       Step = "match"    // matching lessons
	StepDecide      Step = "decide"   // selecting lessons, and withholding some at random
	StepSplice      Step = "splice"   // inserting lessons into the body
	StepBegin       Step = "begin"    // starting an exchange's record
	StepCapture     Step = "capture"  // copying the response
	StepSettle      Step = "settle"   // reading signals from a turn or a closed session
	StepReadCapture Step = "gather"   // reading the captured response
	StepPublish     Step = "publish"  // sharing opt-outs, and keys for later turns, with other replicas
	StepRecord      Step = "record"   // queueing the exchange
	StepWritCommand Step = "writ"     // a /lesson command
	StepFeedback    Step = "feedback" // a post to the feedback endpoint
	StepRedact      Step = "redact"   // removing secrets from a panic's text
)

// Store steps, from the queue in memory to the backend.
const (
	StepEncode           Step = "encode"    // encoding a session or an exchange for the queue on disk
	StepOutbox           Step = "spool"     // appending to the queue on disk
	StepSync             Step = "sync"      // syncing the queue to the disk
	StepReadBack         Step = "read_back" // reading the queue after a restart or an outage
	StepDeliver          Step = "deliver"   // delivering a batch to the backend
	StepCheckpoint       Step = "secure"    // a delivery's checkpoint
	StepWrite            Step = "write"     // a write to the backend
	StepImplicitFeedback Step = "implicit"  // feedback that the user's words imply
	StepParkedFeedback   Step = "unpark"    // feedback that waited for its session
	StepOptOut           Step = "opt_out"   // storing the mark for a session that opted out
	StepErase            Step = "forget"    // a requested deletion
	StepRetain           Step = "retain"    // a deletion by age
	StepSweep            Step = "sweep"     // removing sessions from memory
	StepSetAside         Step = "set_aside" // storing the mark for a session after a panic
	StepReadmit          Step = "readmit"   // admitting sessions that earlier runs set aside
	StepStop             Step = "stop"      // delivering to the store while the server stops
	StepStore            Step = "store"     // opening the backend when the server starts
)

// Learning steps, from an open session to beliefs (the lessons' estimated benefits).
const (
	StepFollow          Step = "follow"  // reading the counters that other replicas changed
	StepLoad            Step = "load"    // reading a tenant's beliefs
	StepRecall          Step = "recall"  // reading open sessions from an earlier run
	StepEarlyVerdict    Step = "early"   // a verdict before the session closes
	StepClose           Step = "close"   // closing sessions at their closing age
	StepCount           Step = "count"   // counting a session's exchanges
	StepSamples         Step = "samples" // building a closed session's samples
	StepLearn           Step = "learn"   // changing the beliefs
	StepPublishMaxima   Step = "raise"   // recording how far beliefs are current
	StepReadCorrections Step = "pick_up" // reading pending corrections
	StepCorrect         Step = "correct" // correcting a closed session after late feedback
	StepRefit           Step = "refit"   // computing the beliefs from all samples
)

// Steps of the other background work.
const (
	StepLessons  Step = "lessons" // lesson directory or lessons in Redis
	StepLedger   Step = "ledger"
	StepRules    Step = "rules"    // registered rules file sections
	StepMeaning  Step = "meaning"  // embeddings for lessons and user words
	StepOpinions Step = "opinions" // users' opinions about lessons
	StepDistill  Step = "distill"  // proposing lessons
	StepTrials   Step = "trials"   // ending trials of proposed lessons
	StepHealth   Step = "health"   // checks for /healthz and precept doctor
)

// Steps returns all steps.
func Steps() []Step {
	return []Step{
		StepHandler, StepTrace, StepParse, StepIdentify, StepLookup, StepDecode, StepMatch, StepDecide, StepSplice, StepBegin,
		StepCapture, StepSettle, StepReadCapture, StepPublish, StepRecord, StepWritCommand, StepFeedback, StepRedact,
		StepEncode, StepOutbox, StepSync, StepReadBack, StepDeliver, StepCheckpoint, StepWrite, StepImplicitFeedback, StepParkedFeedback, StepOptOut,
		StepErase, StepRetain, StepSweep, StepSetAside, StepReadmit, StepStop, StepStore,
		StepFollow, StepLoad, StepRecall, StepEarlyVerdict, StepClose, StepCount, StepSamples, StepLearn, StepPublishMaxima, StepReadCorrections,
		StepCorrect, StepRefit,
		StepLessons, StepLedger, StepRules, StepMeaning, StepOpinions, StepDistill, StepTrials, StepHealth,
	}
}

// Reason is the value of the "reason" label on a metric.
type Reason string

// Reasons for precept_uninspected_total, for requests that were forwarded unchanged.
const (
	UninspectedBusy      Reason = "busy"           // the bodies in memory fill limits.inspect_total_bytes
	UninspectedDepth     Reason = "depth"          // nested too deeply
	UninspectedDuplicate Reason = "duplicate_key"  // a top-level key occurs twice
	UninspectedEncoding  Reason = "encoding"       // the body does not decode
	UninspectedInvalid   Reason = "invalid_json"   // the body is not JSON
	UninspectedItems     Reason = "items"          // more items, parts, calls, tools or keys than the limit
	UninspectedListType  Reason = "list_type"      // the conversation is not a list
	UninspectedNoList    Reason = "no_list"        // the body has no conversation
	UninspectedSigned    Reason = "signed"         // a header has a digest or signature over the body
	UninspectedSize      Reason = "size"           // longer than limits.inspect_bytes
	UninspectedTenant    Reason = "tenant_unknown" // the API key belongs to no tenant
)

// UninspectedReasons returns all reasons for precept_uninspected_total.
func UninspectedReasons() []Reason {
	return []Reason{
		UninspectedBusy, UninspectedDepth, UninspectedDuplicate, UninspectedEncoding, UninspectedInvalid, UninspectedItems,
		UninspectedListType, UninspectedNoList, UninspectedSigned, UninspectedSize, UninspectedTenant,
	}
}

// Reasons for precept_unread_replies_total, for compressed replies.
const (
	UnreadEncoding Reason = "encoding" // unknown Content-Encoding
	UnreadCorrupt  Reason = "corrupt"  // the bytes do not decode
	UnreadSize     Reason = "size"     // the decoded reply is too long for its compressed length
	UnreadBusy     Reason = "busy"     // other replies already use limits.capture_total_bytes
)

// UnreadReasons returns all reasons for precept_unread_replies_total.
func UnreadReasons() []Reason {
	return []Reason{UnreadEncoding, UnreadCorrupt, UnreadSize, UnreadBusy}
}

// Reasons for precept_sessions_excluded_total, for sessions outside the experiment.
const (
	ExcludedTwin Reason = "twin"   // another session has an identical history
	ExcludedLate Reason = "late"   // the store did not return the earlier decision in time
	ExcludedKeys Reason = "secret" // the replica does not know the fleet's keys
	ExcludedBusy Reason = "busy"   // limits.sessions sessions are in memory, and none can be removed

	ExcludedTenant Reason = "tenant" // the tenant has limits.tenant_sessions in memory, and none can be removed
)

// ExclusionReasons returns all reasons for precept_sessions_excluded_total.
func ExclusionReasons() []Reason {
	return []Reason{ExcludedTwin, ExcludedLate, ExcludedKeys, ExcludedBusy, ExcludedTenant}
}

// Reasons for precept_side_requests_total, for requests that are not part of the main conversation.
const (
	SideWarmUp  Reason = "warm_up"     // asks for no output
	SideCompact Reason = "compaction"  // a summary that replaces the conversation
	SideNoTools Reason = "no_tools"    // the session works with tools, the request has none
	SideTools   Reason = "other_tools" // a different agent's tools
	SideQuotes  Reason = "quotes"      // quotes a conversation in progress
	SideTitle   Reason = "title"
	SideSummary Reason = "summary"
	SideMemory  Reason = "memory"
	SideCommit  Reason = "commit"

	SideTags       Reason = "tags"
	SideFollowUp   Reason = "follow_up"  // questions that the user may ask next
	SideQuery      Reason = "query"      // a search query
	SideCompletion Reason = "completion" // the rest of a text that the user is typing
	SideEmoji      Reason = "emoji"
	SidePrompt     Reason = "prompt" // a prompt for another model, or better wording for a prompt
)

// SideReasons returns all reasons for precept_side_requests_total.
func SideReasons() []Reason {
	return []Reason{
		SideWarmUp, SideCompact, SideNoTools, SideTools, SideQuotes, SideTitle, SideSummary, SideMemory, SideCommit,
		SideTags, SideFollowUp, SideQuery, SideCompletion, SideEmoji, SidePrompt,
	}
}

// Reasons for precept_dropped_total, for exchanges that were not kept.
const (
	DroppedFull     Reason = "full"      // other exchanges already use limits.capture_total_bytes
	DroppedQuota    Reason = "quota"     // the outbox already has limits.outbox_bytes
	DroppedOptOut   Reason = "opt_out"   // the exchange or the session opted out
	DroppedRefused  Reason = "bad"       // the backend refuses the exchange permanently
	DroppedReadOnly Reason = "read_only" // the data directory is not writable
	DroppedTenant   Reason = "tenant"    // the tenant has limits.tenant_bytes in the outbox
)

// DropReasons returns all reasons for precept_dropped_total.
func DropReasons() []Reason {
	return []Reason{DroppedFull, DroppedQuota, DroppedOptOut, DroppedRefused, DroppedReadOnly, DroppedTenant}
}

// Reasons for precept_late_feedback_dropped_total, for feedback that waited in the outbox.
const (
	LateUnknown Reason = "unknown" // no session belongs to the named id, run or commit
	LateFull    Reason = "full"    // the session, run or parked feedback already has limits.feedback entries
	LateRefused Reason = "bad"     // the store refuses the feedback permanently
	LateExpired Reason = "expired" // waited longer than a week or learning.retention
)

// LateReasons returns all reasons for precept_late_feedback_dropped_total.
func LateReasons() []Reason { return []Reason{LateUnknown, LateFull, LateRefused, LateExpired} }

// HookResult is the value of the "result" label on precept_hooks_total.
type HookResult string

// Webhook delivery results.
const (
	HookRated        HookResult = "rated"        // sessions got feedback
	HookParked       HookResult = "parked"       // the feedback waits in the outbox
	HookIgnored      HookResult = "ignored"      // the event does not report finished work
	HookUnknown      HookResult = "unknown"      // no session has the commit, branch or pull request
	HookDuplicate    HookResult = "duplicate"    // the delivery was received before
	HookUnauthorized HookResult = "unauthorized" // the delivery's signature matches no configured secret
	HookMalformed    HookResult = "malformed"    // the body is not one of the service's payloads
	HookFailed       HookResult = "failed"       // the store is not writable
)

// HookResults returns all results for precept_hooks_total.
func HookResults() []HookResult {
	return []HookResult{HookRated, HookParked, HookIgnored, HookUnknown, HookDuplicate, HookUnauthorized, HookMalformed, HookFailed}
}
