package sqlite

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// pack returns short and incompressible documents unchanged.
func TestPackRoundTrip(t *testing.T) {
	var p packer
	defer p.close()
	rapid.Check(t, func(t *rapid.T) {
		doc := []byte(`{"text":"` + strings.Repeat(rapid.StringMatching(`[a-z ]{1,40}`).Draw(t, "text"), rapid.IntRange(0, 200).Draw(t, "times")) + `"}`)
		packed, err := p.pack(doc)
		if err != nil {
			t.Fatal(err)
		}
		if len(packed) > len(doc) || (len(doc) < minPackedBytes && !bytes.Equal(packed, doc)) {
			t.Fatalf("pack(%d bytes): got %d bytes, want at most %[1]d bytes, and below %d bytes the document unchanged", len(doc), len(packed), minPackedBytes)
		}
		unpacked, err := p.unpack(packed)
		if err != nil {
			t.Fatalf("unpack(pack(%q)): %v", doc, err)
		}
		if !bytes.Equal(unpacked, doc) {
			t.Fatalf("unpack(pack(%q)): unpacked = %.60q, want %.60q", doc, unpacked, doc)
		}
	})
	for _, size := range []int{minS2LongBytes - 1, minS2LongBytes, 20 * minS2LongBytes} {
		doc := bytes.Repeat([]byte(`{"some":"text, again and again"}`), size/32+1)[:size]
		packed, err := p.pack(doc)
		if err != nil || len(packed) > size/4 || (packed[0] == packS2Long) != (size >= minS2LongBytes) {
			t.Errorf("pack(%d bytes): got %d bytes with the first byte %v, error %v, want at most %d bytes, and the first byte packS2Long only for documents of at least %d bytes",
				size, len(packed), packed[:min(len(packed), 1)], err, size/4, minS2LongBytes)
		}
		if unpacked, err := p.unpack(packed); err != nil {
			t.Errorf("unpack(pack(%d bytes)): %v", size, err)
		} else if !bytes.Equal(unpacked, doc) {
			t.Errorf("unpack(pack(%d bytes)): unpacked = %.60q, want %.60q", size, unpacked, doc)
		}
	}
	noise := make([]byte, 4096)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(noise)
	if packed, err := p.pack(noise); err != nil {
		t.Error(err)
	} else if !bytes.Equal(packed, noise) {
		t.Errorf("pack(incompressible value): packed = %.60q, want %.60q", packed, noise)
	}
	if out, err := p.unpack(nil); err != nil {
		t.Error(err)
	} else if out != nil {
		t.Errorf("unpack(nil) = %s, want nil", out)
	}
	if _, err := p.unpack([]byte{0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("unpack(damaged cell): got error %v, want ErrCorrupt", err)
	}
	for _, damaged := range [][]byte{{packS2}, {packS2, 5, 0xff}, {packS2, 0xff, 0xff, 0xff, 0xff, 0x0f}, {packS2Long}, {packS2Long, 0xff, 0xff, 0xff, 0xff, 0x0f, 1}} {
		if _, err := p.unpack(damaged); !errors.Is(err, ErrCorrupt) {
			t.Errorf("unpack(damaged cell %v): got error %v, want ErrCorrupt", damaged, err)
		}
	}
}

// The packer's dictionary is part of the file format, so a changed dictionary could not unpack the documents of earlier
// releases.
func TestEarlierReleaseDocumentIsUnpacked(t *testing.T) {
	const doc = `{"id":"91beeb64-902f-48fe-b1a2-a7ed8e89cad2","tenant":"default","agent":"a","session":"9f49385ebe8f530618bca3e19b8d9bed",` +
		`"session_name":"s","request_id":"req_1","turn":1,"at":"2026-11-21T22:28:44Z","dialect":"chat","model":"m","status":200,` +
		`"outcome":"complete","new":[],"new_from":0,"reply":{"text":"Done."},"latency_ms":1,"first_byte_ms":1}`
	packed, err := hex.DecodeString("01d5020d008c39316265656236342d393032662d343866652d623161322d61376564386538396361643276dc01006139d088223a22" +
		"3966343933383565626538663533303631386263613365313962386439626564192d205f6e616d65223a22734efe01003156ff013431312d32315432323a32383a343472" +
		"f801006ddef90100303df93074657874223a22446f6e652e223e6f01216d1100185f6d73223a317d")
	if err != nil {
		t.Fatal(err)
	}
	var p packer
	if out, err := p.unpack(packed); err != nil {
		t.Error(err)
	} else if string(out) != doc {
		t.Errorf("unpack(earlier release's document) = %q, want %q", string(out), doc)
	}
}

func TestConcurrentPackRoundTrip(t *testing.T) {
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
				if unpacked, err := p.unpack(packed); err != nil {
					t.Errorf("goroutine %d: %v", n, err)
				} else if !bytes.Equal(unpacked, doc) {
					t.Errorf("goroutine %d: unpacked = %.60q, want %.60q", n, unpacked, doc)
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
	small, _ := p.pack(bytes.Repeat([]byte("{abc}"), 200))
	f.Add(small)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if _, err := p.unpack(doc); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("unpack: got error %v, want none or ErrCorrupt", err)
		}
	})
}

func BenchmarkPack(b *testing.B) {
	for _, size := range []int{1000, 3000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { benchPack(b, size) })
	}
}

func benchPack(b *testing.B, size int) {
	b.Helper()
	var p packer
	var doc bytes.Buffer
	for i := 0; doc.Len() < size; i++ {
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
