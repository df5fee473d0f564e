// Package pack makes stored JSON smaller: S2 with a dictionary of the service's own words. Databases do not compress
// rows of under 2 KB, and no row of a usual request is larger.
package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/s2"
)

// A packed text is mark, the dictionary's number, an S2 block, and the checksum of all these.
const (
	mark    = 1 // JSON begins with no such byte
	header  = 2
	trailer = 4
	least   = 64 // bytes of a text worth packing
)

// ratio is how many times larger than its packed form a text may be: materials.BodySize counts on it.
const ratio = 8

var errDamaged = errors.New("packed text is damaged")

// Pack returns the packed form of JSON, or the text itself where that is not smaller, or smaller than ratio permits.
func Pack(text []byte) []byte {
	if len(text) < least {
		return text
	}
	packed := make([]byte, header+s2.MaxEncodedLen(len(text))+trailer)
	packed[0], packed[1] = mark, newest
	block := dictionaries[newest].Encode(packed[header:len(packed)-trailer], text)
	packed = packed[:header+len(block)]
	packed = binary.LittleEndian.AppendUint32(packed, checksum(packed))
	if len(packed) >= len(text) || len(packed)*ratio < len(text) {
		return text
	}
	return packed
}

// Unpack returns the very text that was packed, and one that was not as it is.
func Unpack(stored []byte) ([]byte, error) {
	if len(stored) == 0 || stored[0] != mark {
		return stored, nil
	}
	if len(stored) < header+trailer {
		return nil, errDamaged
	}
	packed, sum := stored[:len(stored)-trailer], stored[len(stored)-trailer:]
	if binary.LittleEndian.Uint32(sum) != checksum(packed) {
		return nil, errDamaged
	}
	dictionary, known := dictionaries[packed[1]]
	if !known {
		return nil, fmt.Errorf("text is packed with dictionary %d, which this version does not have", packed[1])
	}
	block := packed[header:]
	if n, err := s2.DecodedLen(block); err != nil || n > ratio*len(stored) {
		return nil, errDamaged
	}
	text, err := dictionary.Decode(nil, block)
	if err != nil {
		return nil, fmt.Errorf("unpack stored text: %w", err)
	}
	return text, nil
}

// Len returns how many bytes Unpack returns.
func Len(stored []byte) int {
	if len(stored) < header+trailer || stored[0] != mark {
		return len(stored)
	}
	n, err := s2.DecodedLen(stored[header : len(stored)-trailer])
	if err != nil {
		return len(stored)
	}
	return n
}

func checksum(packed []byte) uint32 { return crc32.Checksum(packed, crc32.MakeTable(crc32.Castagnoli)) }
