package agents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

// sqlRecipe returns the SQL after a heading in docs/SAMPLES.md.
func sqlRecipe(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/SAMPLES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), heading)
	found := regexp.MustCompile("(?s)```sql\n(.*?)```").FindStringSubmatch(rest)
	if !ok || found == nil {
		t.Fatalf("docs/SAMPLES.md has no sql block after %q", heading)
	}
	return found[1]
}

func runPython(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), installedProgram(t, ".cache/venv/bin/python", "make e2e-deps installs it"), append([]string{"-c", program}, args...)...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("python program: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func importConversations(t *testing.T, storeFlags []string, tenant string, n int) {
	t.Helper()
	var lines strings.Builder
	for i := range n {
		line, err := json.Marshal(map[string]any{"source": "test", "id": tenant + harness.RandomHex(8), "reward": i % 2, "messages": []map[string]string{
			{"role": "user", "content": "question " + harness.RandomHex(8)}, {"role": "assistant", "content": "answer"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	path := filepath.Join(t.TempDir(), "talks.jsonl")
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	harness.MustRun(t, append([]string{"import", path, "--tenant", tenant}, storeFlags...)...)
}

const countProgram = `import sys, duckdb, pandas
print(duckdb.sql("select count(*), count(distinct sample_id), count(distinct tenant), count(distinct date) from read_parquet('lake/**/*.parquet', hive_partitioning=true)").fetchall()[0], len(pandas.read_parquet('lake')), sorted(set(pandas.read_parquet('lake').tenant)))`

// A lake is a directory or a bucket with exported samples in Parquet files.
func TestDuckDBAndPandasReadLake(t *testing.T) {
	installedProgram(t, ".cache/venv/bin/python", "make e2e-deps installs it")
	server := storetest.StartRedis(t)
	for name, url := range map[string]string{"embedded": "", "redis": server.URL()} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			storeFlags := []string{"--data-dir", filepath.Join(dir, "data")}
			if url != "" {
				storeFlags = append(storeFlags, "--store-url", url)
			}
			export := append([]string{"export", "--follow", "--once", "--format", "parquet", "--output", filepath.Join(dir, "lake")}, storeFlags...)
			for _, tenant := range []string{"default", "a/b ü"} {
				importConversations(t, storeFlags, tenant, 4)
				harness.MustRun(t, export...)
				harness.MustRun(t, export...)
			}
			if got, want := runPython(t, dir, countProgram), `(8, 8, 2, 1) 8 ['a/b ü', 'default']`; got != want {
				t.Errorf("rows, samples, tenants and dates in DuckDB, rows and tenants in pandas: got %s, want %s", got, want)
			}
			executeSQL := `import sys, duckdb; duckdb.connect("warehouse.duckdb").execute(sys.argv[1])`
			runPython(t, dir, executeSQL, sqlRecipe(t, "**Fine-tuning.**"))
			lines, err := os.ReadFile(filepath.Join(dir, "chat.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			var first struct {
				Messages []struct{ Role, Content string } `json:"messages"`
			}
			if err := json.Unmarshal([]byte(strings.SplitN(string(lines), "\n", 2)[0]), &first); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(lines), "\n"); n != 4 || len(first.Messages) != 2 || first.Messages[1].Content != "answer" {
				t.Errorf("chat.jsonl: got %d lines, the first %v, want 4 lines with two messages, the second \"answer\"", n, first)
			}
			for range 2 { // a repeated recipe must add no rows
				runPython(t, dir, executeSQL, sqlRecipe(t, "**Warehouse.**"))
			}
			if got := runPython(t, dir, `import duckdb; print(duckdb.connect("warehouse.duckdb").execute("select count(*), count(distinct sample_id) from samples").fetchall()[0])`); got != "(8, 8)" {
				t.Errorf("rows and samples in the warehouse: got %s, want (8, 8)", got)
			}
		})
	}
}

// startS3 starts an S3-compatible server with the bucket "bucket", and sets the credentials in the environment.
func startS3(t *testing.T) (endpoint string) {
	t.Helper()
	moto := installedProgram(t, ".cache/venv/bin/moto_server", "make e2e-deps installs it")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_REGION", "us-east-1")
	log := filepath.Join(t.TempDir(), "moto.log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), moto, "-p", "0")
	c.Stdout, c.Stderr = out, out
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGKILL) }
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait(); _ = out.Close() })
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	harness.Eventually(t, "the S3 server's address", func() bool {
		text, _ := os.ReadFile(log)
		endpoint = address.FindString(string(text))
		return endpoint != ""
	})
	runPython(t, t.TempDir(), `import boto3, sys; boto3.client("s3", endpoint_url=sys.argv[1]).create_bucket(Bucket="bucket")`, endpoint)
	return endpoint
}

// samplesInBucket returns a line per prefix with two counts: rows and distinct sample ids in the lake.
func samplesInBucket(t *testing.T, endpoint string, prefixes ...string) string {
	t.Helper()
	read := `import sys, pyarrow.fs as fs, pyarrow.dataset as ds
s3 = fs.S3FileSystem(endpoint_override=sys.argv[1][7:], scheme="http", access_key="test", secret_key="test", region="us-east-1")
for prefix in sys.argv[2:]:
    ids = ds.dataset("bucket/" + prefix, filesystem=s3, partitioning="hive", exclude_invalid_files=True).to_table().to_pandas().sample_id
    print(len(ids), len(set(ids)))`
	return runPython(t, t.TempDir(), read, append([]string{endpoint}, prefixes...)...)
}

func TestLakeInS3HasEachSampleOnce(t *testing.T) {
	endpoint := startS3(t)
	dir := t.TempDir()
	storeFlags := []string{"--data-dir", filepath.Join(dir, "data")}
	importConversations(t, storeFlags, "default", 3)
	export := func(output string, flags ...string) []string {
		return append([]string{"export", "--follow", "--once", "--format", "parquet", "--s3-endpoint", endpoint, "--output", output}, flags...)
	}
	checkRefused := func(want string, args []string) {
		t.Helper()
		if _, stderr, code := harness.RunCommand(t, "", args...); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("export: got exit code %d, standard error %q, want 1 and %q", code, stderr, want)
		}
	}
	checkRefused("create the bucket, or correct --output", export("s3://none/lake", storeFlags...))
	for range 2 {
		harness.MustRun(t, export("s3://bucket/lake", storeFlags...)...)
	}
	other := []string{"--data-dir", filepath.Join(dir, "other")}
	importConversations(t, other, "default", 3)
	checkRefused("belongs to another store", export("s3://bucket/lake", other...))
	if got := samplesInBucket(t, endpoint, "lake"); got != "3 3" {
		t.Errorf("rows and distinct samples in the bucket: got %s, want 3 3", got)
	}
}

// While one write of an export is delayed, a second process exports the same store. The delayed process must fail.
func TestDelayedExportToS3AddsNoDuplicates(t *testing.T) {
	endpoint := startS3(t)
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	storeFlags := []string{"--store-url", filepath.Join(dir, "store.db")}
	importConversations(t, append(storeFlags, "--data-dir", filepath.Join(dir, "0")), "default", 2)
	importConversations(t, append(storeFlags, "--data-dir", filepath.Join(dir, "0")), "Acme", 2)
	var prefixes []string
	for writes := int64(1); ; writes++ {
		prefix := fmt.Sprint("delayed-", writes)
		export := func(endpoint, dataDir string) (stderr string, code int) {
			_, stderr, code = harness.RunCommand(t, "", append([]string{"export", "--data-dir", filepath.Join(dir, dataDir), "--follow", "--once", "--format", "parquet", "--s3-endpoint", endpoint, "--output", "s3://bucket/" + prefix}, storeFlags...)...)
			return stderr, code
		}
		var writesLeft atomic.Int64
		writesLeft.Store(writes)
		forward, delayed := httputil.NewSingleHostReverseProxy(target), false
		slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && writesLeft.Add(-1) == 0 {
				delayed = true
				if stderr, code := export(endpoint, "2"); code != 0 {
					t.Errorf("second process during write %d: got exit code %d, standard error %s, want 0", writes, code, stderr)
				}
			}
			forward.ServeHTTP(w, r)
		}))
		stderr, code := export(slow.URL, "1")
		slow.Close()
		if !delayed {
			if writes < 5 || code != 0 {
				t.Errorf("process without a delay: got %d writes, exit code %d, standard error %s, want at least 4 writes and 0", writes-1, code, stderr)
			}
			break
		}
		prefixes = append(prefixes, prefix)
		if code != 1 || !strings.Contains(stderr, "another process is now writing here") {
			t.Errorf("export with write %d delayed: got exit code %d, standard error %q, want 1 and \"another process is now writing here\"", writes, code, stderr)
		}
	}
	for i, got := range strings.Split(samplesInBucket(t, endpoint, prefixes...), "\n") {
		if got != "4 4" {
			t.Errorf("rows and distinct samples after write %d was delayed: got %s, want 4 4", i+1, got)
		}
	}
}
