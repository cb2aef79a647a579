// Package ledger keeps AGENT.md's "Lessons Learned": what failed in a project, why, what mended it,
// and the rule that prevents it. It records entries (Ledger.Record), reads failures out of what
// linters and tests print (Failures), and reads a ledger back as lessons (Lessons).
//
// Contract: an entry is appended to the end of its section and nothing that stood in the file is
// ever touched, byte for byte; the same failure (file and error summary) is recorded once; any
// number of writers may record at the same time. Every operation leaves a line in
// .orchestration/agent_trace.jsonl beside the ledger.
//
// Hazard: an entry is text that an agent or a tool wrote, in a file that people and models read. It
// is folded to one line a field, and secrets are taken out before it reaches the disk; as a lesson
// it has the trust that its reader gives it, not the trust of a file that a person wrote.
package ledger
