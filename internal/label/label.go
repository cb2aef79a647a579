// Package label declares the values of metric labels and log fields that name a step or a reason.
//
// Each value is a constant of a type, and each type has a list of all of its constants. The metrics
// create a series for each item of the list at the start of the program, because increase() of
// Prometheus does not see the first event of a series that did not exist before.
package label

// Step is the value of the label step of precept_fail_open_total and of the field step in the log:
// the step of learning or storing that failed while the request went through.
type Step string

// The steps of a request, in the order of a turn.
const (
	StepHandler     Step = "handler"  // the HTTP handler of a request
	StepTrace       Step = "trace"    // the span of a turn
	StepParse       Step = "parse"    // the request body
	StepIdentify    Step = "identify" // finding the session of the request
	StepLookup      Step = "lookup"   // reading the session from the store
	StepDecode      Step = "decode"   // decoding a stored session
	StepMatch       Step = "match"    // matching lessons with the request
	StepDecide      Step = "decide"   // selecting lessons, and withholding some of them at random
	StepSplice      Step = "splice"   // inserting lessons into the body
	StepBegin       Step = "begin"    // starting the record of an exchange
	StepCapture     Step = "capture"  // copying the response while the client reads
	StepSettle      Step = "settle"   // the signals of a turn or of a closed session
	StepReadCapture Step = "gather"   // reading the captured response
	StepPublish     Step = "publish"  // sharing opt-outs, and the keys that recognise a later turn, with other replicas
	StepRecord      Step = "record"   // queueing the exchange for the store
	StepWritCommand Step = "writ"     // a /lesson command
	StepFeedback    Step = "feedback" // a post to the feedback endpoint
	StepRedact      Step = "redact"   // removing secrets from the text of a panic
)

// The steps of the store, from the queue in memory to the backend.
const (
	StepEncode           Step = "encode"    // encoding a session or an exchange for the queue on disk
	StepOutbox           Step = "spool"     // appending to the queue on disk
	StepSync             Step = "sync"      // syncing the queue to the disk
	StepReadBack         Step = "read_back" // reading the queue after a restart or an outage
	StepDeliver          Step = "deliver"   // delivering a batch to the backend
	StepCheckpoint       Step = "secure"    // the checkpoint of a delivery
	StepWrite            Step = "write"     // a write to the backend
	StepImplicitFeedback Step = "implicit"  // feedback that the user's words imply
	StepParkedFeedback   Step = "unpark"    // feedback that waited for its session
	StepOptOut           Step = "opt_out"   // storing the mark of a session that opted out
	StepErase            Step = "forget"    // a deletion that a person asked for
	StepRetain           Step = "retain"    // a deletion by age
	StepSweep            Step = "sweep"     // removing sessions from memory
	StepSetAside         Step = "set_aside" // storing the mark of a session at which a step panicked
	StepReadmit          Step = "readmit"   // admitting sessions that earlier runs set aside
	StepStop             Step = "stop"      // delivery to the store at a stop
	StepStore            Step = "store"     // opening the backend at the start
)

// The steps of learning, from an open session to beliefs. A belief is the estimate of the benefit of one
// lesson.
const (
	StepFollow          Step = "follow"  // reading the counters that other replicas changed
	StepLoad            Step = "load"    // reading the beliefs of a tenant
	StepRecall          Step = "recall"  // reading the open sessions of an earlier run
	StepEarlyVerdict    Step = "early"   // a verdict before the session closes
	StepClose           Step = "close"   // closing sessions at their closing age
	StepCount           Step = "count"   // counting the exchanges of a session
	StepSamples         Step = "samples" // building the samples of a closed session
	StepLearn           Step = "learn"   // changing the beliefs
	StepPublishMaxima   Step = "raise"   // recording how far the beliefs are current
	StepReadCorrections Step = "pick_up" // reading the corrections that wait
	StepCorrect         Step = "correct" // correcting a closed session that got late feedback
	StepRefit           Step = "refit"   // computing the beliefs from all samples
)

// The steps of side work.
const (
	StepLessons  Step = "lessons"  // the lesson directory or the lessons of Redis
	StepLedger   Step = "ledger"   // the ledger file
	StepRules    Step = "rules"    // the registered sections of rules files
	StepMeaning  Step = "meaning"  // the embeddings of lessons and user words
	StepOpinions Step = "opinions" // the opinions of users about lessons
	StepDistill  Step = "distill"  // proposals of lessons
	StepTrials   Step = "trials"   // the end of trials of proposals
	StepHealth   Step = "health"   // the checks behind /healthz and doctor
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

// Reason is the value of the label reason of a metric.
type Reason string

// The reasons of precept_uninspected_total: a request on a rewritten path was forwarded unchanged.
const (
	UninspectedBusy      Reason = "busy"           // the bodies in memory use all of limits.inspect_total_bytes
	UninspectedDepth     Reason = "depth"          // the JSON text is nested too deeply
	UninspectedDuplicate Reason = "duplicate_key"  // the body has two equal top-level keys
	UninspectedEncoding  Reason = "encoding"       // the body does not decode
	UninspectedInvalid   Reason = "invalid_json"   // the body is not JSON
	UninspectedItems     Reason = "items"          // more items, parts, calls, tools or keys than the limit
	UninspectedListType  Reason = "list_type"      // the conversation is not a list
	UninspectedNoList    Reason = "no_list"        // the body has no conversation
	UninspectedSigned    Reason = "signed"         // the headers have a digest or a signature of the body
	UninspectedSize      Reason = "size"           // more than limits.inspect_bytes
	UninspectedTenant    Reason = "tenant_unknown" // the API key belongs to no tenant
)

// UninspectedReasons returns all reasons of precept_uninspected_total.
func UninspectedReasons() []Reason {
	return []Reason{
		UninspectedBusy, UninspectedDepth, UninspectedDuplicate, UninspectedEncoding, UninspectedInvalid, UninspectedItems,
		UninspectedListType, UninspectedNoList, UninspectedSigned, UninspectedSize, UninspectedTenant,
	}
}

// The reasons of precept_unread_replies_total: a compressed reply was forwarded and not read.
const (
	UnreadEncoding Reason = "encoding" // a Content-Encoding that precept does not know
	UnreadCorrupt  Reason = "corrupt"  // the bytes do not decode
	UnreadSize     Reason = "size"     // the decoded reply is too long for its compressed length
	UnreadBusy     Reason = "busy"     // limits.capture_total_bytes is in use
)

// UnreadReasons returns all reasons of precept_unread_replies_total.
func UnreadReasons() []Reason {
	return []Reason{UnreadEncoding, UnreadCorrupt, UnreadSize, UnreadBusy}
}

// The reasons of precept_sessions_excluded_total: a new session is not part of the experiment.
const (
	ExcludedTwin Reason = "twin"   // another session has an equal history
	ExcludedLate Reason = "late"   // the store did not return the earlier decision in time
	ExcludedKeys Reason = "secret" // the replica does not know the keys of the fleet
	ExcludedBusy Reason = "busy"   // limits.sessions sessions are in memory, and none of them can leave

	ExcludedTenant Reason = "tenant" // the tenant has limits.tenant_sessions sessions in memory, and none of them can leave
)

// ExclusionReasons returns all reasons of precept_sessions_excluded_total.
func ExclusionReasons() []Reason {
	return []Reason{ExcludedTwin, ExcludedLate, ExcludedKeys, ExcludedBusy, ExcludedTenant}
}

// The reasons of precept_side_requests_total: a request is not part of the main conversation.
const (
	SideWarmUp  Reason = "warm_up"     // a request that asks for no output
	SideCompact Reason = "compaction"  // a summary of the conversation that replaces the conversation
	SideNoTools Reason = "no_tools"    // the session works with tools, the request has no tools
	SideTools   Reason = "other_tools" // the tools of a different agent
	SideQuotes  Reason = "quotes"      // a text that quotes a conversation in progress
	SideTitle   Reason = "title"
	SideSummary Reason = "summary"
	SideMemory  Reason = "memory"
	SideCommit  Reason = "commit"

	SideTags       Reason = "tags"
	SideFollowUp   Reason = "follow_up"  // questions that the user may ask next
	SideQuery      Reason = "query"      // a query for a search
	SideCompletion Reason = "completion" // the rest of a text that the user types
	SideEmoji      Reason = "emoji"
	SidePrompt     Reason = "prompt" // a prompt for another model, or a better wording of a prompt
)

// SideReasons returns all reasons of precept_side_requests_total.
func SideReasons() []Reason {
	return []Reason{
		SideWarmUp, SideCompact, SideNoTools, SideTools, SideQuotes, SideTitle, SideSummary, SideMemory, SideCommit,
		SideTags, SideFollowUp, SideQuery, SideCompletion, SideEmoji, SidePrompt,
	}
}

// The reasons of precept_dropped_total: an exchange was not kept.
const (
	DroppedFull     Reason = "full"      // limits.capture_total_bytes is in use
	DroppedQuota    Reason = "quota"     // limits.outbox_bytes is in use
	DroppedOptOut   Reason = "opt_out"   // the exchange or its session opted out
	DroppedRefused  Reason = "bad"       // the backend refuses the exchange permanently
	DroppedReadOnly Reason = "read_only" // the data directory cannot be written
	DroppedTenant   Reason = "tenant"    // the tenant has limits.tenant_bytes in the outbox
)

// DropReasons returns all reasons of precept_dropped_total.
func DropReasons() []Reason {
	return []Reason{DroppedFull, DroppedQuota, DroppedOptOut, DroppedRefused, DroppedReadOnly, DroppedTenant}
}

// The reasons of precept_late_feedback_dropped_total: posted feedback that waited in the outbox was
// not stored.
const (
	LateUnknown Reason = "unknown" // no session belongs to the id, run or commit that the feedback names
	LateFull    Reason = "full"    // limits.feedback is in use
	LateRefused Reason = "bad"     // the store refuses the feedback permanently
	LateExpired Reason = "expired" // the feedback waited for a week, or for learning.retention
)

// LateReasons returns all reasons of precept_late_feedback_dropped_total.
func LateReasons() []Reason { return []Reason{LateUnknown, LateFull, LateRefused, LateExpired} }

// HookResult is the value of the label result of precept_hooks_total.
type HookResult string

// The results of a webhook's delivery.
const (
	HookRated        HookResult = "rated"        // sessions got feedback
	HookParked       HookResult = "parked"       // the feedback waits in the outbox
	HookIgnored      HookResult = "ignored"      // the event does not report the end of work
	HookUnknown      HookResult = "unknown"      // no session has the commit, branch or pull request
	HookDuplicate    HookResult = "duplicate"    // the delivery was received before
	HookUnauthorized HookResult = "unauthorized" // no secret signed the delivery
	HookMalformed    HookResult = "malformed"    // the body is not a payload of the service
	HookFailed       HookResult = "failed"       // the store cannot be written
)

// HookResults returns all results of precept_hooks_total.
func HookResults() []HookResult {
	return []HookResult{HookRated, HookParked, HookIgnored, HookUnknown, HookDuplicate, HookUnauthorized, HookMalformed, HookFailed}
}
