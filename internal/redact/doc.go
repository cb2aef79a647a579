// Package redact replaces secrets and personal data in texts and JSON with placeholders such as [REDACTED:email:1].
//
// Contract: kindTable lists the redacted kinds of values, one row each, with examples. JSON stays valid JSON. Redacting
// twice equals redacting once. The time is linear in the text length.
//
// Hazards: a value that is encoded (base64, encryption), split over several strings, or spelled out in words is not
// found. A Redactor is not safe for concurrent use.
package redact
