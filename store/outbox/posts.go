package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Post is posted feedback that could not be written to the store. The account does not count posts as exchanges.
type Post struct {
	Number   int64 // set by AddPosts
	Tenant   string
	At       time.Time // time received
	Document []byte    // defined by the store
}

// postsTable creates the post table. openWriter executes it on every file, because earlier releases did not create the
// table.
const postsTable = `CREATE TABLE IF NOT EXISTS posts (
	number   INTEGER PRIMARY KEY,
	tenant   TEXT    NOT NULL,
	at       INTEGER NOT NULL, -- time of receipt, in Unix microseconds
	sum      INTEGER NOT NULL, -- CRC-32C of the other columns
	document BLOB    NOT NULL
)`

const selectPosts = "SELECT number, tenant, at, document, sum FROM posts "

// AddPosts writes posts in one transaction, and returns when they are on the disk. After ErrQuota or ErrFull, no post
// was written.
func (o *Outbox) AddPosts(posts []Post) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writer == nil {
		return errClosed
	}
	if err := o.ensureBallast(); err != nil { // the file that reserves disk space
		return err
	}
	used, err := o.usedBytes()
	if err != nil {
		return classifyError(err)
	}
	for i := range posts {
		used += int64(len(posts[i].Document))
	}
	if used > o.quota {
		return ErrQuota
	}
	return o.writeWithRepair(func() error {
		return o.transact(func() error {
			last, err := queryInt(o.writer, "SELECT coalesce(max(number), 0) FROM posts")
			if err != nil {
				return err
			}
			for i := range posts {
				posts[i].Number = last + 1 + int64(i)
				if err := insertPost(o.writer, &posts[i]); err != nil {
					return err
				}
			}
			o.counts.Posts += int64(len(posts))
			return nil
		})
	})
}

// Posts returns the posts with numbers greater than after, oldest first, until the total document size reaches
// maxBytes.
func (o *Outbox) Posts(after, maxBytes int64) ([]Post, error) {
	list, err := o.readPosts(after, maxBytes)
	if !errors.Is(err, errDamaged) {
		return list, err
	}
	o.mu.Lock()
	err = o.replaceDamaged(err)
	o.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return o.readPosts(after, maxBytes)
}

func (o *Outbox) readPosts(after, maxBytes int64) (list []Post, err error) {
	o.readerMu.Lock()
	defer o.readerMu.Unlock()
	if o.reader == nil {
		return nil, errClosed
	}
	s, err := o.reader.Prepare(selectPosts + "WHERE number > ? ORDER BY number")
	if err != nil {
		return nil, classifyError(err)
	}
	defer func() { err = errors.Join(err, classifyError(s.Reset())) }()
	s.BindInt64(1, after)
	return readPage(s, maxBytes, func() (Post, int, error) {
		p, ok := scanPost(s)
		if !ok {
			return p, 0, fmt.Errorf("%w: post %d has a wrong checksum", errDamaged, p.Number)
		}
		return p, len(p.Document), nil
	})
}

// DropPosts deletes posts. On a full disk it first deletes the ballast, a file that reserves disk space.
func (o *Outbox) DropPosts(numbers []int64) error {
	if len(numbers) == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropPosts(func() error {
		for _, n := range numbers {
			if err := o.deletePosts("number = ?", n); err != nil {
				return err
			}
		}
		return nil
	})
}

// DropPostsBefore deletes the posts received before the given time, and returns their number.
func (o *Outbox) DropPostsBefore(before time.Time) (n int64, err error) {
	if o.PostCount() == 0 {
		return 0, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	posts := o.counts.Posts
	err = o.dropPosts(func() error { return o.deletePosts("at < ?", before.UnixMicro()) })
	return posts - o.counts.Posts, err
}

// dropPosts runs drop, a function that deletes posts, in a transaction. On a full disk it deletes the ballast and runs
// drop again. The caller holds mu.
func (o *Outbox) dropPosts(drop func() error) error {
	if o.writer == nil {
		return errClosed
	}
	err := o.writeWithRepair(func() error { return o.transact(drop) })
	if errors.Is(err, ErrFull) {
		o.dropBallast()
		err = o.writeWithRepair(func() error { return o.transact(drop) })
	}
	o.needsScrub = o.needsScrub || err == nil
	return err
}

// deletePosts deletes the posts selected by a condition. The caller has started a transaction.
func (o *Outbox) deletePosts(where string, arg any) error {
	err := execute(o.writer, "DELETE FROM posts WHERE "+where, arg)
	if err == nil {
		o.counts.Posts -= int64(o.writer.Changes())
	}
	return err
}

// PostCount returns the number of posts, without waiting for the disk.
func (o *Outbox) PostCount() int64 { return o.postCount.Load() }

func copyPosts(from, to *sqlite.Conn) error {
	return sqlitex.Execute(from, selectPosts, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		p, ok := scanPost(s)
		if !ok {
			return nil
		}
		return insertPost(to, &p)
	}})
}

func insertPost(c *sqlite.Conn, p *Post) error {
	return execute(c, "INSERT OR REPLACE INTO posts (number, tenant, at, sum, document) VALUES (?, ?, ?, ?, ?)", p.Number, p.Tenant, p.At.UnixMicro(), p.checksum(), p.Document)
}

// scanPost returns the post in s's current row; ok is false for a wrong checksum.
func scanPost(s *sqlite.Stmt) (p Post, ok bool) {
	p = Post{Number: s.ColumnInt64(0), Tenant: s.ColumnText(1), At: time.UnixMicro(s.ColumnInt64(2)), Document: scanBlob(s, 3)}
	return p, p.checksum() == s.ColumnInt64(4)
}

func (p *Post) checksum() int64 {
	var head [16]byte
	binary.LittleEndian.PutUint64(head[:], uint64(p.Number))
	binary.LittleEndian.PutUint64(head[8:], uint64(p.At.UnixMicro()))
	table := crc32.MakeTable(crc32.Castagnoli) // cached by the standard library
	sum := crc32.Update(0, table, head[:])
	sum = crc32.Update(sum, table, []byte(p.Tenant))
	return int64(crc32.Update(sum, table, p.Document))
}
