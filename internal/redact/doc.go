// Package redact replaces secrets and personal data in texts and JSON with placeholders such as [REDACTED:email:1].
//
// Contract: kindTable lists the redacted kinds of values, one row each, with examples. JSON stays valid JSON. Redacting
// a text twice has the same result as redacting it once. Redaction takes time linear in the text's length.
//
// Hazards: a value that is encoded (base64, encryption), split over several strings, or spelled out in words is not
// found. A Redactor is not safe for concurrent use.
package redact
