package client

import "io"

const (
	maxAnswer = 16 << 20 // bytes of an answer, not compressed
	maxItems  = 1 << 16  // of all its lists together: two bytes of an answer may become hundreds in memory
)

// whole reads an answer to its end, within the limits.
func whole(answer io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(answer, maxAnswer+1))
	if err == nil && (len(text) > maxAnswer || items(text) > maxItems) {
		return nil, ErrTooLarge
	}
	return text, err
}

// items counts the items of all lists in a JSON text, empty lists as one.
func items(text []byte) (n int) {
	var open []byte // the brackets around the place
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			open = append(open, c)
			if c == '[' {
				n++
			}
		case ']', '}':
			open = open[:max(len(open)-1, 0)]
		case ',':
			if len(open) > 0 && open[len(open)-1] == '[' {
				n++
			}
		}
	}
	return n
}
