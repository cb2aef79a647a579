package agents

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

// recipe returns the code block of docs/SAMPLES.md after a line.
func recipe(t *testing.T, begin string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/SAMPLES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), begin)
	found := regexp.MustCompile("(?s)```sql\n(.*?)```").FindStringSubmatch(rest)
	if !ok || found == nil {
		t.Fatalf("docs/SAMPLES.md has no recipe %q", begin)
	}
	return found[1]
}

// python runs a program over a lake and returns its output.
func python(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), wanted(t, ".cache/venv/bin/python", "make e2e-deps installs it"), append([]string{"-c", program}, args...)...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("got error %v, want none: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// imported imports n conversations of a tenant.
func imported(t *testing.T, store []string, tenant string, n int) {
	t.Helper()
	var lines strings.Builder
	for i := range n {
		line, err := json.Marshal(map[string]any{"source": "test", "id": tenant + harness.Random(8), "reward": i % 2, "messages": []map[string]string{
			{"role": "user", "content": "question " + harness.Random(8)}, {"role": "assistant", "content": "answer"},
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
	harness.MustVerb(t, append([]string{"import", path, "--tenant", tenant}, store...)...)
}

const count = `import sys, duckdb, pandas
print(duckdb.sql("select count(*), count(distinct sample_id), count(distinct tenant), count(distinct date) from read_parquet('lake/**/*.parquet', hive_partitioning=true)").fetchall()[0], len(pandas.read_parquet('lake')), sorted(set(pandas.read_parquet('lake').tenant)))`

// DuckDB and pandas read the lake of an embedded store and of Redis. Runs of the verb that follow each
// other write each sample once, and the recipes of the documentation run.
func TestLakeIsReadByDuckDBAndPandas(t *testing.T) {
	wanted(t, ".cache/venv/bin/python", "make e2e-deps installs it")
	server := storetest.StartRedis(t)
	for name, url := range map[string]string{"embedded": "", "redis": server.URL()} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store := []string{"--data-dir", filepath.Join(dir, "data")}
			if url != "" {
				store = append(store, "--store-url", url)
			}
			export := append([]string{"export", "--follow", "--once", "--format", "parquet", "--output", filepath.Join(dir, "lake")}, store...)
			for _, tenant := range []string{"default", "a/b ü"} {
				imported(t, store, tenant, 4)
				harness.MustVerb(t, export...)
				harness.MustVerb(t, export...)
			}
			if got, want := python(t, dir, count), `(8, 8, 2, 1) 8 ['a/b ü', 'default']`; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			run := `import sys, duckdb; duckdb.connect("warehouse.duckdb").execute(sys.argv[1])`
			python(t, dir, run, recipe(t, "**Fine-tuning.**"))
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
				t.Errorf("got %d lines and %v, want 4 good conversations", n, first)
			}
			for range 2 { // a load may be repeated
				python(t, dir, run, recipe(t, "**Warehouse.**"))
			}
			if got := python(t, dir, `import duckdb; print(duckdb.connect("warehouse.duckdb").execute("select count(*), count(distinct sample_id) from samples").fetchall()[0])`); got != "(8, 8)" {
				t.Errorf("got %s samples in the warehouse, want 8", got)
			}
		})
	}
}

// A bucket of an S3-compatible server has the same files. A missing bucket is an error with a remedy.
func TestLakeInABucketOfS3(t *testing.T) {
	moto := wanted(t, ".cache/venv/bin/moto_server", "make e2e-deps installs it")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_REGION", "us-east-1")
	dir := t.TempDir()
	log := filepath.Join(dir, "moto.log")
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
	endpoint := ""
	harness.Eventually(t, "the address of the S3 server", func() bool {
		text, _ := os.ReadFile(log)
		endpoint = address.FindString(string(text))
		return endpoint != ""
	})
	store := []string{"--data-dir", filepath.Join(dir, "data")}
	imported(t, store, "default", 3)
	export := append([]string{"export", "--follow", "--once", "--format", "parquet", "--output", "s3://bucket/lake", "--s3-endpoint", endpoint}, store...)
	if _, complaints, code := harness.Verb(t, "", export...); code != 1 || !strings.Contains(complaints, "create the bucket, or correct --output") {
		t.Errorf("got exit code %d and %q, want 1 and the remedy for a missing bucket", code, complaints)
	}
	make := `import boto3, sys; boto3.client("s3", endpoint_url=sys.argv[1]).create_bucket(Bucket="bucket")`
	python(t, dir, make, endpoint)
	for range 2 {
		harness.MustVerb(t, export...)
	}
	read := `import sys, pyarrow.fs as fs, pyarrow.dataset as ds
s3 = fs.S3FileSystem(endpoint_override=sys.argv[1][7:], scheme="http", access_key="test", secret_key="test", region="us-east-1")
print(len(set(ds.dataset("bucket/lake", filesystem=s3, partitioning="hive", exclude_invalid_files=True).to_table().to_pandas().sample_id)))`
	if got := python(t, dir, read, endpoint); got != "3" {
		t.Errorf("got %s samples in the bucket, want 3", got)
	}
}
