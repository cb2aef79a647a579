// Package ledger keeps the section "Lessons Learned" of AGENT.md: a project's failures, each with the cause, the
// resolution and a rule that prevents it.
//
// The contract: Record appends to the section and changes no other byte in the file. Each failure (file and error
// summary) is written once. Concurrent writers are safe. Each operation is logged in .orchestration/agent_trace.jsonl,
// next to the file.
//
// The hazard: agents and tools write entries, and people and models read the file. Each field becomes one line, without
// secrets. A lesson from a ledger is therefore trusted less than a file written by a person.
package ledger
