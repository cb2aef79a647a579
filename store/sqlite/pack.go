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
	packFrom   = 512       // bytes; what is shorter is not worth it, and stays legible
	packBetter = 2 << 10   // from here on by zstd; below, its tables cost four times what s2 takes, and the dictionary makes good for them
	packWindow = 256 << 10 // what an encoder remembers: documents are some kilobytes, and its memory is kept
	packedMost = 256 << 20 // what a document may become: more is damage
	packS2     = 1         // the byte before what s2 made, which begins neither JSON nor a frame of zstd
	packLong   = 64 << 10  // from here on by s2 again: a third of zstd's time where it counts, for a third more bytes
	packS2Long = 2         // the byte before what s2 made without the dictionary
)

// smallDict is what small documents have in common: a third of one is the names of its fields. It
// is part of the file's format: other words need another byte than packS2.
const smallDict = `{"type":"function_call_output","call_id":"call_","output":"{"type":"message","role":"user","content":[{"type":"input_text","text":"` +
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01","content":[{"type":"text","text":"{"type":"tool_use","id":"toolu_01","name":"","input":{` +
	`[{"role":"assistant","content":null,"tool_calls":[{"id":"call_","type":"function","function":{"name":"","arguments":"{\"command\":\"` +
	`"}}]},{"role":"tool","tool_call_id":"call_","content":"[REDACTED:email:1]` +
	`"lessons":[{"slug":"","arm":"","state":"matched","propensity":0.8},{"slug":"","arm":"","state":"injected"},{"state":"withheld"},{"state":"control"}],"loops":1,` +
	`"dialect":"responses","dialect":"messages","outcome":"incomplete","outcome":"error","finish":"tool_calls","error":"","truncated":true,"redacted":{"` +
	`{"id":"-4","tenant":"default","agent":"","session":"","session_name":"","request_id":"req_","turn":1,"at":"2026-00-00T00:00:00.000000Z","dialect":"chat","model":"",` +
	`"status":200,"outcome":"complete","new":[],"new_from":1,"reply":{"id":"chatcmpl-","text":"","calls":[{"id":"call_","name":"","args":"{\"path\":\""}],` +
	`"finish":"stop","input_tokens":1,"cached_tokens":1,"output_tokens":1},"latency_ms":1.0,"first_byte_ms":1.0,"book":"","config":""}`

// packer compresses documents, which are most of the file: with them as they are, a long session
// takes twice its transcript, a page and a row holding what they can. It is made when first used,
// and safe for concurrent use.
type packer struct {
	once sync.Once
	enc  *zstd.Encoder
	dec  *zstd.Decoder
	err  error

	dictOnce sync.Once
	dict     *s2.Dict
}

// small packs and unpacks by smallDict.
func (p *packer) small() *s2.Dict {
	p.dictOnce.Do(func() { p.dict = s2.MakeDict([]byte(smallDict), []byte(`{"id":"`)) })
	return p.dict
}

func (p *packer) open() error {
	p.once.Do(func() {
		p.enc, p.err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(packWindow), zstd.WithLowerEncoderMem(true))
		if p.err == nil {
			p.dec, p.err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(packedMost))
		}
	})
	return p.err
}

// pack compresses a document, where that makes it smaller.
func (p *packer) pack(doc []byte) ([]byte, error) {
	if len(doc) < packFrom {
		return doc, nil
	}
	if len(doc) < packBetter {
		var room [packBetter + packBetter/4]byte // a copy takes no more than what is packed
		room[0] = packS2
		if n := 1 + len(p.small().Encode(room[1:], doc)); n < len(doc) {
			return bytes.Clone(room[:n]), nil
		}
		return doc, nil
	}
	if len(doc) >= packLong {
		out := make([]byte, 1+s2.MaxEncodedLen(len(doc)))
		out[0] = packS2Long
		if out = out[:1+len(s2.Encode(out[1:], doc))]; len(out) < len(doc) {
			return slices.Clone(out), nil // without the room for what does not shrink
		}
		return doc, nil
	}
	if err := p.open(); err != nil {
		return nil, err
	}
	if out := p.enc.EncodeAll(doc, make([]byte, 0, len(doc)/2)); len(out) < len(doc) {
		return out, nil
	}
	return doc, nil
}

// unpack undoes pack: JSON begins with a bracket, a frame with its magic number (RFC 8878).
func (p *packer) unpack(doc []byte) ([]byte, error) {
	if len(doc) > 0 && doc[0] == packS2 {
		return unpackS2(doc[1:], packBetter, p.small().Decode)
	}
	if len(doc) > 0 && doc[0] == packS2Long {
		return unpackS2(doc[1:], packedMost, s2.Decode)
	}
	if !bytes.HasPrefix(doc, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return doc, nil
	}
	if err := p.open(); err != nil {
		return nil, err
	}
	out, err := p.dec.DecodeAll(doc, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: a document in it cannot be unpacked: %w", ErrCorrupt, err)
	}
	return out, nil
}

// unpackS2 decodes what s2 made, if it is not longer than most.
func unpackS2(doc []byte, most int, decode func(room, doc []byte) ([]byte, error)) (out []byte, err error) {
	n, err := s2.DecodedLen(doc)
	if err == nil && n > most {
		err = s2.ErrTooLarge
	}
	if err == nil {
		out, err = decode(make([]byte, n), doc)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: a document in it cannot be unpacked: %w", ErrCorrupt, err)
	}
	return out, nil
}

// close lets go of what open made; a store that is closed packs nothing any more.
func (p *packer) close() {
	p.once.Do(func() {}) // whoever is in open has left it
	if p.dec != nil {
		p.dec.Close()
	}
}
