package pack

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

const (
	request = `{"id":123456,"shop_code":"SP-0001","comment":"by the side gate","materials":[{"material_id":10,` +
		`"material":"Shelf of steel, grey","material_variant_id":3,"material_variant":"90 cm","sku":"SHELF-90",` +
		`"width":90.5,"height":30,"depth":25,"quantity":4},{"material_id":11,"material":"Bracket",` +
		`"material_variant_id":null,"material_variant":null,"sku":"BRACKET","width":5,"height":5,"depth":null,` +
		`"quantity":16}]}`
	event = `{"type":"material_request.estimated","timestamp":"2026-11-22T14:03:09.123456Z","data":{"supplier_id":` +
		`"sup_k3j5h2g7f4d6s8a9","request_id":123456,"shop_code":"SP-0001","estimates":[{"estimate_id":` +
		`"est_mfrggzdfmztwq2lknnwg23tp","service":"road","carrier":"Rodovia Cargas","price_cents":17300,` +
		`"currency":"BRL","lead_time_days":6,"dispatch_date":"2026-11-23","delivery_date":"2026-12-01",` +
		`"chargeable_weight_kg":82.2,"volume_m3":0.277248,"valid_until":"2026-11-30T02:59:59Z"}],"unavailable":[` +
		`{"service":"express","reason":"The chargeable weight is 46.3 kg, the service takes up to 30 kg."}]}}`
)

func TestUnpack_returns_the_very_text_whatever_it_is(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "short": `{"id":1}`, "request": request, "event": event,
		"no JSON": "ab\x00\xff" + strings.Repeat("x", 99),
		"alike":   strings.Repeat("a", 1<<20), "random": rand.Text() + rand.Text() + rand.Text() + rand.Text(),
		"many": strings.Repeat(request, 3000), "not English": strings.Repeat(`"móveis de aço ☃"`, 20),
	} {
		got, err := Unpack(Pack([]byte(text)))
		if err != nil || string(got) != text {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(text), err)
		}
	}
}

func TestPack_makes_usual_texts_smaller_than_a_half_and_leaves_others(t *testing.T) {
	t.Parallel()
	for text, part := range map[string]int{request: 2, event: 3} {
		if packed := Pack([]byte(text)); packed[0] != mark || len(packed)*part > len(text) {
			t.Errorf("%d bytes of %d", len(packed), len(text))
		}
	}
	for _, text := range []string{"", `{"id":1}`, strings.Repeat("a", 1<<20), rand.Text() + rand.Text() + rand.Text()} {
		if packed := Pack([]byte(text)); string(packed) != text {
			t.Errorf("%.20s: %d bytes of %d", text, len(packed), len(text))
		}
	}
}

// Every later version reads what a version has stored. A digest that differs here belongs to a dictionary that was
// edited: give the new one the next number instead.
func TestDictionaries_are_never_changed_and_what_they_packed_is_read(t *testing.T) {
	t.Parallel()
	for number, digest := range map[byte]string{
		1: "ccba0a6aa1e0a78ec4055abad2c04d07f8b82d51e9726bfd625813f7d6ec9690",
	} {
		if got := fmt.Sprintf("%x", sha256.Sum256(dictionaries[number].Bytes())); got != digest {
			t.Errorf("dictionary %d is %s", number, got)
		}
	}
	stored, err := hex.DecodeString("" +
		"0101ca04da74035031312d32325431343a30333a30392e3132333435367674033c6b336a356832673766346436733861" +
		"393e84031032333435363685031853502d303030318a8c035c6d667267677a64666d7a747771326c6b6e6e7767323374" +
		"70f22603083733308e290300365a29031031312d32335e29030431321500140c38322e323a2c031432373732343852f6" +
		"021031312d333051f61500450c34362e3341fa1500180c7d5d7d7ddb778a8c")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Unpack(stored); err != nil || string(got) != event {
		t.Errorf("%s, %v; it is packed as %x now", got, err, Pack([]byte(event)))
	}
}

func TestUnpack_of_damaged_bytes_is_an_error(t *testing.T) {
	t.Parallel()
	packed := Pack([]byte(event))
	for i := 1; i < len(packed); i++ {
		for bit := range 8 {
			damaged := bytes.Clone(packed)
			damaged[i] ^= 1 << bit
			if got, err := Unpack(damaged); err == nil {
				t.Fatalf("bit %d of byte %d: %s", bit, i, got)
			}
		}
		if got, err := Unpack(packed[:i]); err == nil {
			t.Fatalf("the first %d bytes: %s", i, got)
		}
	}
}

func TestUnpack_of_a_later_dictionary_says_which_it_is(t *testing.T) {
	t.Parallel()
	if _, err := Unpack(sealed(99, []byte(event))); err == nil || !strings.Contains(err.Error(), "dictionary 99") {
		t.Error(err)
	}
}

func TestUnpack_makes_no_more_of_few_bytes_than_the_ratio(t *testing.T) {
	t.Parallel()
	block := binary.AppendUvarint(nil, 1<<30)
	if _, err := Unpack(sealed(newest, append(block, make([]byte, 100)...))); err == nil {
		t.Error("a gigabyte of 100 bytes")
	}
}

// sealed is a block with the right checksum, so that it is decoded.
func sealed(dictionary byte, block []byte) []byte {
	packed := append([]byte{mark, dictionary}, block...)
	return binary.LittleEndian.AppendUint32(packed, checksum(packed))
}

func FuzzUnpack(f *testing.F) {
	for _, text := range []string{request, event} {
		packed := Pack([]byte(text))
		f.Add(packed[header : len(packed)-trailer])
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		stored := sealed(newest, block)
		if text, err := Unpack(stored); err == nil && len(text) > ratio*len(stored) {
			t.Errorf("%d bytes of %d", len(text), len(stored))
		}
		if len(block) > 0 && block[0] == mark {
			return
		}
		if text, err := Unpack(Pack(block)); err != nil || !bytes.Equal(text, block) {
			t.Errorf("%x came back as %x, %v", block, text, err)
		}
	})
}

func BenchmarkPack(b *testing.B) {
	for name, text := range map[string]string{"request": request, "event": event} {
		packed := Pack([]byte(text))
		b.Run("pack "+name, func(b *testing.B) {
			for b.Loop() {
				Pack([]byte(text))
			}
			b.ReportMetric(float64(len(text))/float64(len(packed)), "times-smaller")
		})
		b.Run("unpack "+name, func(b *testing.B) {
			for b.Loop() {
				_, _ = Unpack(packed)
			}
		})
	}
}
