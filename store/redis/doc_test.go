package redis_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// permissions are what a user of precept's needs, as docs/OPERATIONS.md tells operators.
func permissions() []string {
	return strings.Fields("-@all +@connection +@read +@hash +@set +@sortedset +@string +@list +@stream +@pubsub " +
		"+eval +evalsha +append +del +exists +pexpire +incr +incrby +time +info +cluster|slots +cluster|shards +cluster|nodes +command -@dangerous +info")
}

func TestPermissionsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	flat := regexp.MustCompile(`\s+`).ReplaceAllString(string(text), " ")
	if !strings.Contains(flat, strings.Join(permissions(), " ")) {
		t.Errorf("docs/OPERATIONS.md does not list the permissions that are tested: %s", strings.Join(permissions(), " "))
	}
}
