package pack

import (
	"encoding/binary"

	"github.com/klauspost/compress/s2"
)

// Texts of up to short bytes are encoded here: s2's encoder clears a table of 64 KiB for each, on the stack, which
// every goroutine that packs grows for it. What is encoded is S2 as well, and read by s2.
const (
	short    = 16 << 10
	seenBits = 10 // of the places in the text
	wordBits = 12 // of the places in the dictionary
	copied   = 64 // bytes at most by one copy
)

// dictionary is what texts are packed with.
type dictionary struct {
	*s2.Dict
	text   []byte
	places [1 << wordBits]uint16 // where words of the text are, by hash, from 1; 0: nowhere
}

func newDictionary(text string) *dictionary {
	d := &dictionary{Dict: s2.MakeDictManual([]byte(text), 0), text: []byte(text)}
	for i := 0; i+8 <= len(text); i++ {
		d.places[hash(d.text[i:])>>(32-wordBits)] = uint16(i + 1)
	}
	return d
}

// hash is of the first five bytes of at least eight.
func hash(text []byte) uint32 {
	return uint32(binary.LittleEndian.Uint64(text) << 24 * 889523592379 >> 32)
}

// encode appends the text's S2 block to dst.
func (d *dictionary) encode(dst, text []byte) []byte {
	if len(text) > short {
		return append(dst, d.Encode(nil, text)...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	var seen [1 << seenBits]uint16 // where words of the text are, by hash, from 1
	done := 0
	for at := 0; at+8 <= len(text); {
		h := hash(text[at:])
		n, offset := 0, 0
		if place := int(seen[h>>(32-seenBits)]); place > 0 {
			n, offset = alike(text[place-1:], text[at:]), at-place+1
		}
		seen[h>>(32-seenBits)] = uint16(at + 1)
		if place := int(d.places[h>>(32-wordBits)]); place > 0 {
			if m := alike(d.text[place-1:], text[at:]); m > n {
				n, offset = m, at+len(d.text)-place+1
			}
		}
		if n < 5 {
			at++
			continue
		}
		dst = appendCopy(appendLiteral(dst, text[done:at]), offset, n)
		at += n
		done = at
	}
	return appendLiteral(dst, text[done:])
}

// alike returns how many bytes both begin with.
func alike(a, b []byte) (n int) {
	for limit := min(len(a), len(b)); n < limit && a[n] == b[n]; n++ {
	}
	return n
}

func appendLiteral(dst, literal []byte) []byte {
	switch n := len(literal) - 1; {
	case n < 0:
		return dst
	case n < 60:
		dst = append(dst, byte(n)<<2)
	case n < 1<<8:
		dst = append(dst, 60<<2, byte(n))
	default:
		dst = append(dst, 61<<2, byte(n), byte(n>>8))
	}
	return append(dst, literal...)
}

func appendCopy(dst []byte, offset, n int) []byte {
	for ; n > 0; n -= copied {
		m := min(n, copied)
		if m >= 4 && m < 12 && offset < 1<<11 {
			dst = append(dst, byte(offset>>8)<<5|byte(m-4)<<2|1, byte(offset))
			continue
		}
		dst = append(dst, byte(m-1)<<2|2, byte(offset), byte(offset>>8))
	}
	return dst
}
