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

// BankTimeout is the maximum time for one operation on the lesson storage.
const BankTimeout = 10 * redisTimeout

// bankURL returns the URL of the Redis with the lessons, or "" if the lessons are files. The value redis:// selects the
// Redis in store.url.
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
		"lessons is redis://, which means the Redis in store.url, but store.url is a file; write an address such as redis://host:6379/0",
	)
}

// LessonsLocation returns where the lessons are, for messages: a directory, or a Redis URL without password and
// parameters.
func LessonsLocation(cfg *configs.Config) string {
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

// LessonsError wraps an error from reading the lessons. For Redis, it names the address and a remedy.
func LessonsError(cfg *configs.Config, err error) error {
	if err == nil || !IsRedis(cfg.Lessons) {
		return err
	}
	return fmt.Errorf("the lessons in %s cannot be read: %w; %s", LessonsLocation(cfg), err, redisRemedy(cfg.Lessons))
}

// OpenRedisBank opens the lessons in Redis, or returns nil if the lessons are files.
func (t *Tools) OpenRedisBank(cfg *configs.Config) (*redis.Bank, error) {
	url, err := bankURL(cfg)
	if url == "" || err != nil {
		return nil, err
	}
	b, err := redis.OpenBank(redis.Options{URL: url, Now: t.Now, OnUnreplicated: t.OnUnreplicated})
	if err != nil {
		return nil, fmt.Errorf("lessons: %w", err)
	}
	return b, nil
}

// OpenStorage opens the lesson storage, and returns a function that closes the storage.
func (t *Tools) OpenStorage(cfg *configs.Config) (bank.Storage, func(), error) {
	storage, err := t.OpenRedisBank(cfg)
	switch {
	case err != nil:
		return nil, nil, err
	case storage == nil:
		return bank.Directory(cfg.Lessons), func() {}, nil
	}
	return storage, func() { _ = storage.Close() }, nil
}

// OpenBank opens the configured lessons for reading and writing. The change functions adjust the bank's options.
func (t *Tools) OpenBank(cfg *configs.Config, change ...func(*bank.Options)) (b *bank.Bank, closeBank func(), err error) {
	storage, closeBank, err := t.OpenStorage(cfg)
	if err != nil {
		return nil, nil, err
	}
	return t.NewBank(storage, append([]func(*bank.Options){withLessonLimit(cfg)}, change...)...), closeBank, nil
}

func withLessonLimit(cfg *configs.Config) func(*bank.Options) {
	return func(o *bank.Options) { o.Limits.TenantLessons = cfg.Limits.TenantLessons }
}

// NewBank returns a bank for the lessons in storage.
func (t *Tools) NewBank(storage bank.Storage, change ...func(*bank.Options)) *bank.Bank {
	o := bank.Options{Storage: storage, Now: t.Now, FindSecrets: SecretKinds, Checks: lesson.Checker{Secrets: PrivateKinds}}
	for _, c := range change {
		c(&o)
	}
	return bank.New(o)
}

// SecretKinds returns the kinds of secrets in a text. A lesson may contain personal data, because it may name the
// person to ask.
func SecretKinds(text string) []string {
	r := redact.New(false)
	r.Text(text)
	return slices.Sorted(maps.Keys(r.Counts()))
}

// PrivateKinds returns the kinds of secrets and personal data in a text.
func PrivateKinds(text string) []string {
	r := redact.New(true)
	r.Text(text)
	return slices.Sorted(maps.Keys(r.Counts()))
}
