package tracker

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"
)

// normalize returns a value of a file as the store keeps it, or what is wrong with it.
func normalize(k kind, text []byte) (value []byte, detail string) {
	switch k {
	case integerField:
		n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
		if err != nil {
			return nil, "must be an integer"
		}
		return strconv.AppendInt(nil, n, 10), ""
	case numberField:
		f, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, "must be a number"
		}
		return strconv.AppendFloat(nil, f, 'g', -1, 64), ""
	case boolField:
		return normalBool(text)
	case dateField:
		if !validDate(text) {
			return nil, "must be a day of the calendar, written YYYY-MM-DD"
		}
		return text, ""
	case timeField:
		if len(text) != timeLength || !validTime(text) {
			return nil, "must be a time of day, written HH:mm:ss"
		}
		return text, ""
	default:
		if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
			return nil, "must be UTF-8 text without NUL"
		}
		return text, ""
	}
}

func normalBool(text []byte) (value []byte, detail string) {
	switch string(bytes.ToLower(bytes.TrimSpace(text))) {
	case "true", "t", "1":
		return []byte("1"), ""
	case "false", "f", "0":
		return []byte("0"), ""
	}
	return nil, "must be true or false"
}
