// Package redact replaces secrets and personal data in texts and JSON by placeholders such as
// [REDACTED:email:1].
//
// Contract: what is found is in kindTable, one row a kind, and every row has examples. JSON stays
// JSON, and what was redacted once stays as it is when it is redacted again. The work grows with
// the length of the text.
//
// Hazards: what is wrapped (base64, encryption), split over several strings or written in words is
// not found. A Redactor belongs to one goroutine.
package redact
