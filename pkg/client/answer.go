package client

import "io"

const (
	maxAnswer = 16 << 20 // bytes of an answer, not compressed
	maxValues = 1 << 18  // of all its lists and objects together: two bytes of a list may become hundreds in memory
)

// whole reads an answer to its end, within the limits.
func whole(answer io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(answer, maxAnswer+1))
	if err == nil && (len(text) > maxAnswer || values(text) > maxValues) {
		return nil, ErrTooLarge
	}
	return text, err
}

// values counts the values in the lists and objects of a JSON text: each but the first has a comma before it.
func values(text []byte) (n int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case ',', '[':
			n++
		}
	}
	return n
}
