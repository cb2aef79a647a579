package work_test

import (
	"fmt"
	"strings"
	"testing"

	"precept/internal/work"
)

func ExampleParsePullRequest() {
	for _, text := range []string{"https://github.com/Acme/Shop/pull/12/files", "acme/shop#12", "https://gitlab.com/acme/team/shop/-/merge_requests/7"} {
		ref, ok := work.ParsePullRequest(text)
		fmt.Println(ref.Repository, ref.Name, ok)
	}
	// Output:
	// acme/shop 12 true
	// acme/shop 12 true
	// acme/team/shop 7 true
}

func TestRemoteRepository(t *testing.T) {
	for remote, want := range map[string]string{
		"git@github.com:Acme/Shop.git":           "acme/shop",
		"github.com:acme/shop":                   "acme/shop",
		"https://user:token@github.com/a/b.git/": "a/b",
		"ssh://git@host:2222/acme/team/shop.git": "acme/team/shop",
		"/srv/git/shop.git":                      "",
		"../shop":                                "",
		`C:\git\shop`:                            "",
		"":                                       "",
		"https://":                               "",
		"host:shop":                              "",
	} {
		if got := work.RemoteRepository(remote); got != want {
			t.Errorf("RemoteRepository(%q) = %q, want %q", remote, got, want)
		}
	}
}

func TestInvalidRefsAreRejected(t *testing.T) {
	for _, hash := range []string{"", "3f2a9c", "3f2a9cg", "0000000", strings.Repeat("a", 65)} {
		if _, ok := work.CommitRef(hash, ""); ok {
			t.Errorf("CommitRef(%q): got ok = true, want false", hash)
		}
	}
	for _, name := range []string{"", "a b", "a..b", "-x", "HEAD", "a:b", "a\x00b", "/a", "a//b", strings.Repeat("a", 257)} {
		if _, ok := work.BranchRef(name, ""); ok {
			t.Errorf("BranchRef(%q): got ok = true, want false", name)
		}
	}
	for _, text := range []string{"12", "#12", "shop#12", "acme/shop#-1", "acme/shop#x", "ftp://h/a/b/pull/1", "https://h/pull/1", "https://h/a/b/pull", "https://%zz/a/b/pull/1"} {
		if ref, ok := work.ParsePullRequest(text); ok {
			t.Errorf("ParsePullRequest(%q) = %v, true, want false", text, ref)
		}
	}
}
