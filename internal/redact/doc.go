// Package redact replaces secrets and personal data in texts and JSON by placeholders such as
// [REDACTED:email:1].
//
// The contract: kindTable lists the redacted kinds, one row each, with examples. JSON stays valid
// JSON. Redacting twice equals redacting once. The work grows with the length of the text.
//
// The hazards: content that is encoded (base64, encryption), split over several strings or spelled
// in words is not found. A Redactor is not safe for concurrent use.
package redact
