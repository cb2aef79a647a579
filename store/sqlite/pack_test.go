package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestPack(t *testing.T) {
	var p packer
	defer p.close()
	rapid.Check(t, func(t *rapid.T) {
		doc := []byte(`{"text":"` + strings.Repeat(rapid.StringMatching(`[a-z ]{1,40}`).Draw(t, "text"), rapid.IntRange(0, 200).Draw(t, "times")) + `"}`)
		packed, err := p.pack(doc)
		if err != nil {
			t.Fatal(err)
		}
		if len(packed) > len(doc) || (len(doc) < packFrom && !bytes.Equal(packed, doc)) {
			t.Fatalf("%d bytes became %d", len(doc), len(packed))
		}
		back, err := p.unpack(packed)
		if err != nil || !bytes.Equal(back, doc) {
			t.Fatalf("%q came back as %q, %v", doc, back, err)
		}
	})
	noise := make([]byte, 4096)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(noise)
	if packed, err := p.pack(noise); err != nil || !bytes.Equal(packed, noise) {
		t.Errorf("what does not shrink was packed all the same: %d bytes, %v", len(packed), err)
	}
	if out, err := p.unpack(nil); out != nil || err != nil {
		t.Errorf("nothing became %q, %v", out, err)
	}
	if _, err := p.unpack([]byte{0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("damage: %v", err)
	}
}

func TestPackFromManySides(t *testing.T) {
	var p packer
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			doc := bytes.Repeat([]byte(fmt.Sprint("{some text ", n, "}")), 200)
			for range 50 {
				packed, err := p.pack(doc)
				if err != nil {
					t.Error(err)
				}
				if back, err := p.unpack(packed); err != nil || !bytes.Equal(back, doc) {
					t.Errorf("%d: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	p.close()
}

func FuzzUnpack(f *testing.F) {
	var p packer
	packed, _ := p.pack(bytes.Repeat([]byte("{abc}"), 500))
	f.Add(packed)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if _, err := p.unpack(doc); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	})
}

func BenchmarkPack(b *testing.B) {
	var p packer
	var doc bytes.Buffer
	for i := 0; doc.Len() < 3000; i++ {
		fmt.Fprintf(&doc, `{"file":"internal/server_%d.go","line":%d,"text":"if err := s.store.Get(ctx, id); err != nil {"}`, i, i*37)
	}
	b.SetBytes(int64(doc.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.pack(doc.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}
