// Package hooks checks and reads webhooks from GitHub and GitLab, and finds the events that rate an agent's work. It
// has no clock and no I/O.
package hooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"precept/internal/work"
)

// Service is the name of a webhook sender.
type Service string

// The services.
const (
	GitHub Service = "github"
	GitLab Service = "gitlab"
)

// Outcome is the outcome for a commit, a branch or a pull request.
type Outcome string

// The outcomes.
const (
	Merged      Outcome = "merged"
	Closed      Outcome = "closed" // without a merge
	Reverted    Outcome = "reverted"
	CheckPassed Outcome = "check_passed"
	CheckFailed Outcome = "check_failed"
)

// Score returns the reward for an outcome, from 0 to 1. A check says less about the work than the end of a pull
// request.
func (o Outcome) Score() float64 {
	return map[Outcome]float64{Merged: 1, CheckPassed: 0.7, CheckFailed: 0.2}[o]
}

// IsCheck reports whether the outcome is a check. A check's score counts until the pull request is merged or closed.
func (o Outcome) IsCheck() bool { return o == CheckPassed || o == CheckFailed }

// Event is one outcome, with the references to the work.
type Event struct {
	Outcome    Outcome
	Repository string
	Check      string // check name
	// RefGroups holds groups of references, the preferred group first. The event rates the sessions that worked on the
	// first group known to precept.
	RefGroups [][]work.Ref
	At        time.Time // as the service states it; zero if unknown
}

// ID returns the event's id. A repeated event has the same id.
func (e *Event) ID(service Service) string {
	h := sha256.New()
	parts := []string{string(service), string(e.Outcome), e.Repository, e.Check, e.At.UTC().Format(time.RFC3339Nano)}
	for _, group := range e.RefGroups {
		for _, ref := range group {
			parts = append(parts, ref.Key(), ref.Name)
		}
	}
	for _, part := range parts {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return "hook_" + hex.EncodeToString(h.Sum(nil)[:12])
}

// maxAge is the maximum age of a signed GitLab delivery, so that a copied delivery cannot be sent again later.
const maxAge = 5 * time.Minute

// HasSignature reports whether a delivery has a signature or a token, valid or not. The caller refuses other deliveries
// without reading them.
func HasSignature(service Service, h http.Header) bool {
	if service == GitHub {
		_, ok := githubSignature(h)
		return ok
	}
	return h.Get("Webhook-Signature") != "" || h.Get("X-Gitlab-Token") != ""
}

func githubSignature(h http.Header) (signature []byte, ok bool) {
	text, ok := strings.CutPrefix(h.Get("X-Hub-Signature-256"), "sha256=")
	if !ok {
		return nil, false
	}
	signature, err := hex.DecodeString(text)
	return signature, err == nil && len(signature) == sha256.Size
}

// IsSigned reports whether the secret's owner sent a delivery. GitHub signs in X-Hub-Signature-256. GitLab signs in
// Webhook-Signature, or sends the secret in X-Gitlab-Token.
func IsSigned(service Service, h http.Header, body []byte, secret string, now time.Time) bool {
	if secret == "" {
		return false
	}
	if service == GitHub {
		given, ok := githubSignature(h)
		return ok && hmac.Equal(given, digest([]byte(secret), body))
	}
	if signatures := h.Get("Webhook-Signature"); signatures != "" {
		return isSignedByGitLab(h, signatures, body, secret, now)
	}
	given, want := sha256.Sum256([]byte(h.Get("X-Gitlab-Token"))), sha256.Sum256([]byte(secret)) // equal lengths for a constant-time comparison
	return subtle.ConstantTimeCompare(given[:], want[:]) == 1
}

// isSignedByGitLab reports whether any signature, in the standardwebhooks.com form, is valid.
func isSignedByGitLab(h http.Header, signatures string, body []byte, secret string, now time.Time) bool {
	at, err := strconv.ParseInt(h.Get("Webhook-Timestamp"), 10, 64)
	if err != nil || now.Sub(time.Unix(at, 0)).Abs() > maxAge {
		return false
	}
	keys := [][]byte{[]byte(secret)}
	if coded, ok := strings.CutPrefix(secret, "whsec_"); ok {
		if key, err := base64.StdEncoding.DecodeString(coded); err == nil {
			keys = append(keys, key)
		}
	}
	text := append([]byte(h.Get("Webhook-Id")+"."+h.Get("Webhook-Timestamp")+"."), body...)
	for signature := range strings.FieldsSeq(signatures) {
		given, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signature, "v1,"))
		for _, key := range keys {
			if err == nil && hmac.Equal(given, digest(key, text)) {
				return true
			}
		}
	}
	return false
}

func digest(key, text []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(text)
	return m.Sum(nil)
}

// DeliveryID returns a delivery's id, or "". A repeated delivery has the same id.
func DeliveryID(h http.Header) string {
	for _, name := range [...]string{"X-GitHub-Delivery", "Webhook-Id", "Idempotency-Key", "X-Gitlab-Event-UUID"} {
		if id := h.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// Parse returns a delivery's events, or the reason for ignoring it.
func Parse(service Service, h http.Header, body []byte) (events []Event, ignored string, err error) {
	if service == GitHub {
		return parseGitHub(h, body)
	}
	return parseGitLab(h, body)
}

// validRefs returns the valid references among the results of commitRef, branchRef and pullRequestRef.
func validRefs(refs ...func() (work.Ref, bool)) (list []work.Ref) {
	for _, f := range refs {
		if ref, ok := f(); ok {
			list = append(list, ref)
		}
	}
	return list
}

func commitRef(hash, repository string) func() (work.Ref, bool) {
	return func() (work.Ref, bool) { return work.CommitRef(hash, work.CleanPath(repository)) }
}

// branchRef returns a function that makes a reference to a branch. It refuses the default branch, because many sessions
// work on it.
func branchRef(name, defaultName, repository string) func() (work.Ref, bool) {
	return func() (work.Ref, bool) {
		ref, ok := work.BranchRef(name, work.CleanPath(repository))
		return ref, ok && repository != "" && name != defaultName
	}
}

func pullRequestRef(repository string, number int) func() (work.Ref, bool) {
	return func() (work.Ref, bool) {
		return work.PullRequestRef(work.CleanPath(repository), strconv.Itoa(number))
	}
}

func nonEmptyGroups(groups ...[]work.Ref) (list [][]work.Ref) {
	for _, g := range groups {
		if len(g) > 0 {
			list = append(list, g)
		}
	}
	return list
}

// maxReverts bounds the reverts in one push.
const maxReverts = 20

type pushedCommit struct {
	Message   string `json:"message"`
	Timestamp string `json:"timestamp"`
}

// pushReverts returns an event for each commit that a push to the default branch reverts, or the reason for ignoring
// the push.
func pushReverts(ref, defaultBranch, repository string, commits []pushedCommit) ([]Event, string, error) {
	if ref != "refs/heads/"+defaultBranch {
		return nil, "the push is not to the default branch", nil
	}
	var messages []string
	at := ""
	for _, c := range commits {
		messages, at = append(messages, c.Message), c.Timestamp
	}
	if events := revertEvents(messages, repository, parseTime(at)); len(events) > 0 {
		return events, "", nil
	}
	return nil, "the push reverts nothing", nil
}

// revertEvents returns an event for each commit reverted by the messages, at most maxReverts.
func revertEvents(messages []string, repository string, at time.Time) (events []Event) {
	for _, message := range messages {
		if !strings.HasPrefix(message, "Revert ") {
			continue
		}
		refs := validRefs(commitRef(revertedCommit(message), repository), pullRequestRef(repository, revertedPullRequest(message)))
		if len(refs) > 0 {
			events = append(events, Event{Outcome: Reverted, Repository: repository, RefGroups: nonEmptyGroups(refs), At: at})
		}
		if len(events) == maxReverts {
			break
		}
	}
	return events
}

// revertedCommit reads "This reverts commit HASH." and "This reverts commit HASH, reversing changes made to HASH.",
// even with quotes or brackets around the hash. The result is not always a hash.
func revertedCommit(message string) string {
	rest := strings.TrimLeft(textAfter(message, "This reverts commit "), " \t\r\n\"'`([<")
	end := strings.IndexFunc(rest, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if end >= 0 {
		return rest[:end]
	}
	return rest
}

// revertedPullRequest reads Reverts acme/shop#12, This reverts merge request !12, Revert "Title (#12)" and Revert
// "Merge pull request #12 from ...". The result is 0 for other texts.
func revertedPullRequest(text string) int {
	title, _, _ := strings.Cut(text, "\n")
	places := []string{textAfter(text, "Reverts "), textAfter(text, "This reverts merge request ")}
	if strings.HasPrefix(title, "Revert ") {
		at := strings.LastIndex(title, "(#")
		places = append(places, title[max(at, 0):], textAfter(title, "pull request "))
	}
	for _, place := range places {
		place, _, _ = strings.Cut(place, "\n")
		i := strings.IndexAny(place, "#!")
		if i < 0 || strings.Contains(place[:i], " ") {
			continue
		}
		digits := place[i+1:]
		if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			digits = digits[:end]
		}
		if n, err := strconv.Atoi(digits); err == nil {
			return n
		}
	}
	return 0
}

func textAfter(text, prefix string) string { _, rest, _ := strings.Cut(text, prefix); return rest }

func parseTime(texts ...string) time.Time {
	for _, text := range texts {
		for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05 MST", "2006-01-02 15:04:05 -0700"} {
			if at, err := time.Parse(layout, text); err == nil {
				return at.UTC()
			}
		}
	}
	return time.Time{}
}
