package server

import (
	"runtime/debug"
	"testing"
)

func TestNewBuildPrefersLinkerVersion(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: "true"}}
	for _, tc := range []struct {
		name, linked, module string
		settings             []debug.BuildSetting
		want                 string
	}{
		{"linker version", "v1.2.3", "(devel)", nil, "v1.2.3"},
		{"linker version, in a Git directory", "v1.2.3", "v1.2.4-0.20261128184305-0123456789ab", commit, "v1.2.3"},
		{"module version", "", "v1.2.4", commit, "v1.2.4"},
		{"commit", "", "(devel)", commit, "devel-0123456789ab"},
		{"commit without a module version", "", "", commit, "devel-0123456789ab"},
		{"devel module without a commit", "", "(devel)", nil, "(devel)"},
		{"no version", "", "", nil, "(devel)"},
	} {
		info := &debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: tc.module}, Settings: tc.settings}
		b := newBuild(tc.linked, info)
		if b.Version != tc.want || b.Go != "go1.26" || (b.Revision == revision) != (tc.settings != nil) || b.Modified != (tc.settings != nil) {
			t.Errorf("%s: newBuild = %+v, want version %s and the commit from the settings", tc.name, b, tc.want)
		}
	}
}
