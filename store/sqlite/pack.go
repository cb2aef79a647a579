package sqlite

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

const (
	minPackedBytes   = 512       // shorter documents are not compressed
	minZstdBytes     = 2 << 10   // shorter documents use s2 and a dictionary, in a quarter of zstd's time
	minS2LongBytes   = 64 << 10  // longer documents use s2 alone, in a third of zstd's time, but with a third more bytes
	zstdWindowBytes  = 256 << 10 // memory kept by the encoder; most documents have a few kilobytes
	maxUnpackedBytes = 256 << 20 // longest valid document
	packS2           = 1         // first byte in an s2 document with the dictionary; JSON and zstd begin differently
	packS2Long       = 2         // first byte in an s2 document without the dictionary
)

// smallDict is the s2 dictionary, and part of the file format: a changed dictionary would need a new first byte instead
// of packS2.
const smallDict = `{"type":"function_call_output","call_id":"call_","output":"{"type":"message","role":"user","content":[{"type":"input_text","text":"` +
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01","content":[{"type":"text","text":"{"type":"tool_use","id":"toolu_01","name":"","input":{` +
	`[{"role":"assistant","content":null,"tool_calls":[{"id":"call_","type":"function","function":{"name":"","arguments":"{\"command\":\"` +
	`"}}]},{"role":"tool","tool_call_id":"call_","content":"[REDACTED:email:1]` +
	`"lessons":[{"slug":"","arm":"","state":"matched","propensity":0.8},{"slug":"","arm":"","state":"injected"},{"state":"withheld"},{"state":"control"}],"loops":1,` +
	`"dialect":"responses","dialect":"messages","outcome":"incomplete","outcome":"error","finish":"tool_calls","error":"","truncated":true,"redacted":{"` +
	`{"id":"-4","tenant":"default","agent":"","session":"","session_name":"","request_id":"req_","turn":1,"at":"2026-00-00T00:00:00.000000Z","dialect":"chat","model":"",` +
	`"status":200,"outcome":"complete","new":[],"new_from":1,"reply":{"id":"chatcmpl-","text":"","calls":[{"id":"call_","name":"","args":"{\"path\":\""}],` +
	`"finish":"stop","input_tokens":1,"cached_tokens":1,"output_tokens":1},"latency_ms":1.0,"first_byte_ms":1.0,"book":"","config":""}`

// packer compresses documents, which take most of the file. A packer is safe for concurrent use.
type packer struct {
	once sync.Once
	enc  *zstd.Encoder
	dec  *zstd.Decoder
	err  error

	dictOnce sync.Once
	dict     *s2.Dict
}

func (p *packer) smallDictionary() *s2.Dict {
	p.dictOnce.Do(func() { p.dict = s2.MakeDict([]byte(smallDict), []byte(`{"id":"`)) })
	return p.dict
}

func (p *packer) initZstd() error {
	p.once.Do(func() {
		p.enc, p.err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(zstdWindowBytes), zstd.WithLowerEncoderMem(true))
		if p.err == nil {
			p.dec, p.err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxUnpackedBytes))
		}
	})
	return p.err
}

// pack compresses a document, or returns it unchanged if the result would not be shorter.
func (p *packer) pack(doc []byte) ([]byte, error) {
	if len(doc) < minPackedBytes {
		return doc, nil
	}
	if len(doc) < minZstdBytes {
		var buf [minZstdBytes + minZstdBytes/4]byte // on the stack
		buf[0] = packS2
		if n := 1 + len(p.smallDictionary().Encode(buf[1:], doc)); n < len(doc) {
			return bytes.Clone(buf[:n]), nil
		}
		return doc, nil
	}
	if len(doc) >= minS2LongBytes {
		out := make([]byte, 1+s2.MaxEncodedLen(len(doc)))
		out[0] = packS2Long
		if out = out[:1+len(s2.Encode(out[1:], doc))]; len(out) < len(doc) {
			return slices.Clone(out), nil // without spare capacity
		}
		return doc, nil
	}
	if err := p.initZstd(); err != nil {
		return nil, err
	}
	if out := p.enc.EncodeAll(doc, make([]byte, 0, len(doc)/2)); len(out) < len(doc) {
		return out, nil
	}
	return doc, nil
}

// unpack reverses pack. An uncompressed document is JSON, and a zstd frame begins with a magic number (RFC 8878).
func (p *packer) unpack(doc []byte) ([]byte, error) {
	if len(doc) > 0 && doc[0] == packS2 {
		return unpackS2(doc[1:], minZstdBytes, p.smallDictionary().Decode)
	}
	if len(doc) > 0 && doc[0] == packS2Long {
		return unpackS2(doc[1:], maxUnpackedBytes, s2.Decode)
	}
	if !bytes.HasPrefix(doc, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return doc, nil
	}
	if err := p.initZstd(); err != nil {
		return nil, err
	}
	out, err := p.dec.DecodeAll(doc, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: a stored document cannot be decompressed: %w", ErrCorrupt, err)
	}
	return out, nil
}

// unpackS2 decodes an s2 block. A block that decodes to more than maxBytes is damaged.
func unpackS2(doc []byte, maxBytes int, decode func(room, doc []byte) ([]byte, error)) (out []byte, err error) {
	n, err := s2.DecodedLen(doc)
	if err == nil && n > maxBytes {
		err = s2.ErrTooLarge
	}
	if err == nil {
		out, err = decode(make([]byte, n), doc)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: a stored document cannot be decompressed: %w", ErrCorrupt, err)
	}
	return out, nil
}

// close releases the decoder. A closed packer must not be used.
func (p *packer) close() {
	p.once.Do(func() {}) // waits until a running initZstd has ended
	if p.dec != nil {
		p.dec.Close()
	}
}
