package config

import "log/slog"

// Secret is a value that prints as *** everywhere; string(s) is the only way to its text.
type Secret string

const hidden = "***"

// String hides the value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the value from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the value from JSON and every other text form.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
