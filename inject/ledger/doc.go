// Package ledger maintains the "Lessons Learned" section of AGENT.md. The section lists a project's failures, each with
// its cause, its resolution, and a rule that prevents it.
//
// The contract: Record appends to the section and changes no other byte of the file. Each failure (file and error
// summary) is written once. Concurrent writers do not harm each other. Each operation is logged in
// .orchestration/agent_trace.jsonl, next to the file.
//
// The hazard: agents and tools write entries, and people and models read the file. Therefore each field is reduced to
// one line without secrets, and a lesson from a ledger is trusted less than a file that a person wrote.
package ledger
