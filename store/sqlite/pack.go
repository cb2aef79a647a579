package sqlite

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	packFrom   = 512       // bytes; what is shorter is not worth it, and stays legible
	packWindow = 256 << 10 // what an encoder remembers: documents are some kilobytes, and its memory is kept
	packedMost = 256 << 20 // what a document may become: more is damage
)

// packer compresses documents, which are most of the file: with them as they are, a long session takes twice its transcript, a
// page and a row holding what they can. It is made when first used, and safe for concurrent use.
type packer struct {
	once sync.Once
	enc  *zstd.Encoder
	dec  *zstd.Decoder
	err  error
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

// close lets go of what open made; a store that is closed packs nothing any more.
func (p *packer) close() {
	p.once.Do(func() {}) // whoever is in open has left it
	if p.dec != nil {
		p.dec.Close()
	}
}
