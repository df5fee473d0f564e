package errs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Check collects the rules that an input breaks. Pointers are built for broken rules only: most inputs break none.
type Check struct {
	Found []Violation
	list  string // the list whose item is checked; "" outside of lists
	item  int
}

// In makes the violations that follow those of an item of a list; "" ends that.
func (c *Check) In(list string, item int) { c.list, c.item = list, item }

// Add adds a violation at a pointer, below the item that is checked.
func (c *Check) Add(pointer, detail string) {
	if c.list != "" {
		pointer = c.list + strconv.Itoa(c.item) + pointer
	}
	c.Found = append(c.Found, At(pointer, detail))
}

// Required is the detail of a member that is missing.
const Required = "is required"

// Member returns the value of a member, zero when it is missing or valid says no; then detail says what it must be.
func Member[T any](c *Check, pointer string, value *T, valid func(T) bool, detail string) (v T) {
	switch {
	case value == nil:
		c.Add(pointer, Required)
	case !valid(*value):
		c.Add(pointer, detail)
	default:
		v = *value
	}
	return v
}

// Text is Member for a text of at most so many characters that is not blank.
func (c *Check) Text(pointer string, value *string, limit int) string {
	switch {
	case value == nil:
		c.Add(pointer, Required)
	case strings.TrimSpace(*value) == "":
		c.Add(pointer, "must not be blank")
	case strings.ContainsRune(*value, 0):
		c.Add(pointer, "must not contain the character NUL (\\u0000)")
	case utf8.RuneCountInString(*value) > limit:
		c.Add(pointer, fmt.Sprintf("must have at most %d characters", limit))
	default:
		return *value
	}
	return ""
}

// Number checks a number that may be missing, from 0 to the largest.
func (c *Check) Number(pointer string, value *float64, largest float64, detail string) {
	if value != nil && !(*value >= 0 && *value <= largest) {
		c.Add(pointer, detail)
	}
}

// OneOf returns the condition of Member that a value is one of some.
func OneOf[T comparable](some ...T) func(T) bool {
	return func(v T) bool { return slices.Contains(some, v) }
}
