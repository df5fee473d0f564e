package tracker

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestNumbers_come_out_as_a_double_or_null(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", 400)
	for text, want := range map[string]string{
		"1" + zeros: "null", "-1" + zeros + ".5": "null", "1e400": "null", "NaN": "null", "Infinity": "null",
		"1_000": "null", "0x1p4": "null", "": "null", "-23.5505": "-23.5505", "12.000": "12.000", " 007 ": "7",
		"1" + zeros[:300]: "1e+300", "1" + zeros[:299]: "1" + zeros[:299], "0." + zeros + "1": "0", "1." + zeros: "1",
	} {
		got := appendNumber(nil, []byte(text))
		var f *float64
		if err := json.Unmarshal(got, &f); string(got) != want || err != nil {
			t.Errorf("%.20s of %d bytes is %.40s, want %.40s; %v", text, len(text), got, want, err)
		}
	}
	if _, ok := parseInteger("1_000"); ok {
		t.Error("1_000 is read as an integer")
	}
}
