package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"precept/configs"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/redact"
	"precept/store/redis"
)

// BankLimit is the maximum time of one operation on the bank, the storage of the lessons with its rules for writing.
const BankLimit = 10 * reachLimit

// bankURL returns the address of the lessons in Redis, "" when the lessons are files in a directory.
// The value redis:// selects the Redis of store.url, so that the password is written only once.
func bankURL(cfg *configs.Config) (string, error) {
	switch {
	case !IsRedis(cfg.Lessons):
		return "", nil
	case cfg.Lessons != "redis://":
		return cfg.Lessons, nil
	case IsRedis(cfg.StoreURL()):
		return cfg.StoreURL(), nil
	}
	return "", errors.New(
		"lessons is redis://, which means the Redis of store.url, but store.url is a file; write redis://host:6379/0",
	)
}

// LessonsPlace returns the place of the lessons for messages: a directory, or the address of Redis without password and
// parameters.
func LessonsPlace(cfg *configs.Config) string {
	if !IsRedis(cfg.Lessons) {
		return cfg.Lessons
	}
	address, err := bankURL(cfg)
	if err != nil {
		return "redis"
	}
	scheme, rest, _ := strings.Cut(address, "://")
	rest, _, _ = strings.Cut(rest, "?")
	return scheme + "://" + rest[strings.LastIndex(rest, "@")+1:]
}

// LessonsFault returns the error of lessons that cannot be read. For lessons in Redis the error names the address, the
// cause and the remedy.
func LessonsFault(cfg *configs.Config, err error) error {
	if err == nil || !IsRedis(cfg.Lessons) {
		return err
	}
	return fmt.Errorf("the lessons in %s cannot be read: %w; %s", LessonsPlace(cfg), err, redisRemedy(cfg.Lessons))
}

// OpenBank makes the client of the lessons in Redis; nil when the lessons are files in a directory.
func (t *Tools) OpenBank(cfg *configs.Config) (*redis.Bank, error) {
	url, err := bankURL(cfg)
	if url == "" || err != nil {
		return nil, err
	}
	b, err := redis.OpenBank(redis.Options{URL: url, Now: t.Now})
	if err != nil {
		return nil, fmt.Errorf("lessons: %w", err)
	}
	return b, nil
}

// OpenPlace opens the storage of the lessons (a directory or Redis). The returned function closes
// the storage.
func (t *Tools) OpenPlace(cfg *configs.Config) (bank.Place, func(), error) {
	place, err := t.OpenBank(cfg)
	switch {
	case err != nil:
		return nil, nil, err
	case place == nil:
		return bank.Directory(cfg.Lessons), func() {}, nil
	}
	return place, func() { _ = place.Close() }, nil
}

// OpenWriter opens the configured lessons for writing. See Writer.
func (t *Tools) OpenWriter(cfg *configs.Config, change ...func(*bank.Options)) (b *bank.Bank, closeBank func(), err error) {
	place, closeBank, err := t.OpenPlace(cfg)
	if err != nil {
		return nil, nil, err
	}
	return t.Writer(place, append([]func(*bank.Options){limitLessons(cfg)}, change...)...), closeBank, nil
}

// limitLessons applies limits.tenant_lessons to a bank.
func limitLessons(cfg *configs.Config) func(*bank.Options) {
	return func(o *bank.Options) { o.Limits.Tenant = cfg.Limits.TenantLessons }
}

// Writer returns the bank of a place: the rules for writing lessons, with the redactor's checks.
// change sets further options.
func (t *Tools) Writer(place bank.Place, change ...func(*bank.Options)) *bank.Bank {
	o := bank.Options{Place: place, Now: t.Now, Keys: SecretKinds, Checks: lesson.Checks{Secrets: PrivateKinds}}
	for _, c := range change {
		c(&o)
	}
	return bank.New(o)
}

// SecretKinds returns the kinds of secrets in a text, without personal data: the name of a person to ask
// may be the subject of a lesson.
func SecretKinds(text string) []string {
	r := redact.New(false)
	r.Text(text)
	return slices.Sorted(maps.Keys(r.Counts()))
}

// PrivateKinds returns the kinds of secrets and personal data that the redactor of samples finds in a text.
func PrivateKinds(text string) []string {
	r := redact.New(true)
	r.Text(text)
	return slices.Sorted(maps.Keys(r.Counts()))
}
