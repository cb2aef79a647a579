// Package ledger keeps the section "Lessons Learned" of AGENT.md: failures of a project with their
// cause, their resolution and the rule that prevents them. Ledger.Record appends entries, Failures
// reads the output of linters and tests, and Lessons returns the entries as lessons.
//
// The contract: Record appends an entry to the end of the section and changes no other byte of the
// file. Record writes each failure (file and error summary) once. Any number of writers may record
// at the same time. Each operation appends a line to .orchestration/agent_trace.jsonl, in the
// folder of the ledger.
//
// The hazard: an agent or a tool wrote the text of an entry, and people and models read the file. Each
// field is folded to one line, and secrets are removed before the text reaches the disk. A lesson
// from a ledger has the trust of its reader, not the trust of a file that a person wrote.
package ledger
