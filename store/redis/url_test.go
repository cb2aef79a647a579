package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"redis://h":                              "[h:6379] db 0 user  password  cluster false master  prefix precept tls false",
		"redis://h:1/3":                          "[h:1] db 3 user  password  cluster false master  prefix precept tls false",
		"rediss://u:p%40%25@h":                   "[h:6379] db 0 user u password p@% cluster false master  prefix precept tls true",
		"redis://:p@h?prefix=team-a":             "[h:6379] db 0 user  password p cluster false master  prefix team-a tls false",
		"redis://u:a@b@h":                        "[h:6379] db 0 user u password a@b cluster false master  prefix precept tls false",
		"redis://[::1]:7/":                       "[[::1]:7] db 0 user  password  cluster false master  prefix precept tls false",
		"redis://[::1]":                          "[[::1]:6379] db 0 user  password  cluster false master  prefix precept tls false",
		"redis://a:1,b:2,c?cluster=true":         "[a:1 b:2 c:6379] db 0 user  password  cluster true master  prefix precept tls false",
		"redis://a:1?addr=b:2&cluster=1":         "[a:1 b:2] db 0 user  password  cluster true master  prefix precept tls false",
		"redis-sentinel://p:q@a,b:2/4?master=m":  "[a:26379 b:2] db 4 user p password q cluster false master m prefix precept tls false",
		"rediss://a?master_name=m&skip_verify=1": "[a:26379] db 0 user  password  cluster false master m prefix precept tls true",
	} {
		a, err := parseURL(text)
		got := fmt.Sprintf("%v db %d user %s password %s cluster %v master %s prefix %s tls %v", a.Addrs, a.DB, a.Username, a.Password, a.IsClusterMode, a.MasterName, a.prefix, a.TLSConfig != nil)
		if err != nil {
			t.Fatalf("parseURL(%q): %v", text, err)
		}
		if got != want {
			t.Errorf("parseURL(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestDataNameIgnoresTheLogin(t *testing.T) {
	names := map[string]string{}
	for text, want := range map[string]string{
		"redis://h": "plain", "redis://u:old@h:6379/0": "plain", "rediss://u:new@h?skip_verify=true": "plain",
		"redis://h/1": "other database", "redis://h?prefix=b": "other prefix", "redis://g": "other server",
		"redis-sentinel://a,b?master=m": "group", "redis-sentinel://u:p@b,a?master=m&sentinel_password=s": "group",
		"redis-sentinel://a,b?master=n": "other group",
	} {
		got, err := DataName(text)
		if err != nil {
			t.Fatalf("DataName(%q): %v", text, err)
		}
		if first, ok := names[got]; ok && first != want {
			t.Errorf("DataName(%q): got %q, which is the name for the case %q, want the name for the case %q", text, got, first, want)
		}
		names[got] = want
	}
	if len(names) != 6 {
		t.Errorf("different results of DataName: got %d, want 6, in %v", len(names), names)
	}
}

func TestCheckURLRefusesInvalidURL(t *testing.T) {
	for _, text := range []string{
		"", "redis", "redis://", "http://h", "redis:///0", "redis://h/x", "redis://h/-1", "redis://h:port", "redis://h:70000", "redis://a,b",
		"redis://u:canary%@h", "redis://u:canary@", "redis://h?cluster=maybe", "redis://h?secret=canary", "redis://h?%zz=canary", "redis://h?prefix=",
		"redis://h?prefix={x}", "redis-sentinel://h", "redis://h?cluster=1&master=m", "redis://h/1?cluster=1", "redis://u:canary@:6379",
	} {
		err := CheckURL(text)
		if !errors.Is(err, ErrURL) {
			t.Errorf("CheckURL(%q): got error %v, want ErrURL", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("CheckURL(%q): got error %v, want an error without the password", text, err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("redis://u:p@h:1,[::1]:2/3?cluster=true&addr=x:1")
	f.Add("redis-sentinel://h?master=m")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseURL(text)
		if err != nil {
			return
		}
		if len(a.Addrs) == 0 {
			t.Errorf("parseURL(%q): Addrs is empty", text)
		}
		if a.prefix == "" {
			t.Errorf("parseURL(%q): prefix is empty", text)
		}
		if a.DB < 0 {
			t.Errorf("parseURL(%q): DB = %d, want at least 0", text, a.DB)
		}
	})
}
