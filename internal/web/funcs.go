package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"math"
	"reflect"
	"strings"
	"time"
	"unicode"
)

// functions returns what the pages may call, in one language.
func (s *Site) functions(l *locale) template.FuncMap {
	f := template.FuncMap{
		"t":       l.translate,                                       // t "Text with %s" .Argument
		"n":       l.plural,                                          // n "%d delivery" "%d deliveries" .Count
		"num":     func(v any) string { return l.printer.Sprint(v) }, // 1,234
		"time":    l.moment,                                          // in UTC; the script shows it in the reader's zone
		"minute":  l.minute,                                          // time without its seconds
		"day":     l.day,                                             // 2026-11-23 as people write it
		"ms":      l.milliseconds,
		"decimal": l.decimal,
		"money":   l.money,
		"past":    func(at time.Time) bool { return at.Before(s.cfg.Now()) },
		"pretty":  pretty,
		"plain":   plain, // a stranger's text without control characters
		"asset":   s.assets.address,
		"path":    func(p string) string { return s.cfg.Base + p },
		"args":    arguments, // args "Name" value … makes the argument of a part
		"deref":   deref,
		"word":    stateWord, // t (word .Status)
		"kind":    kindOf,
	}
	maps.Copy(f, s.cfg.Functions)
	return f
}

// plural chooses the text by the count, which is its first argument.
func (l *locale) plural(one, many string, count int64) string {
	if count == 1 {
		return l.translate(one, count)
	}
	return l.translate(many, count)
}

// moment returns a time that people and programs can read.
func (l *locale) moment(at time.Time) template.HTML {
	if at.IsZero() {
		return "—"
	}
	return l.timeElement(at, ":05", "")
}

// minute is moment without seconds.
func (l *locale) minute(at time.Time) template.HTML { return l.timeElement(at, "", " data-minute") }

func (l *locale) timeElement(at time.Time, seconds, attribute string) template.HTML {
	at = at.UTC()
	shape := "2 Jan 2006, 15:04"
	if l.tag == "pt" {
		shape = "02/01/2006, 15:04"
	}
	text := fmt.Sprintf(`<time datetime="%s"%s>%s UTC</time>`, at.Format(time.RFC3339Nano), attribute,
		at.Format(shape+seconds))
	return template.HTML(text) //nolint:gosec // made of digits
}

// day returns a civil day, whatever zone the reader is in.
func (l *locale) day(text string) string {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return text
	}
	if l.tag == "pt" {
		return at.Format("02/01/2006")
	}
	return at.Format("2 Jan 2006")
}

// decimal writes a number short: 0.04, 0.4, 12, 1,200.
func (l *locale) decimal(v float64) string {
	switch {
	case v >= 10 || v == math.Trunc(v):
		return l.printer.Sprintf("%.0f", v)
	case v >= 0.1:
		return l.printer.Sprintf("%.1f", v)
	default:
		return l.printer.Sprintf("%.2f", v)
	}
}

func (l *locale) milliseconds(ms int64) string {
	if ms == 0 {
		return "< 1 ms"
	}
	if ms < 1000 {
		return l.printer.Sprintf("%d ms", ms)
	}
	return l.printer.Sprintf("%.1f s", float64(ms)/1000)
}

func (l *locale) money(cents int64, currency string) string {
	if currency == "BRL" && l.tag == "pt" {
		currency = "R$"
	}
	return currency + "\u00a0" + l.printer.Sprintf("%.2f", float64(cents)/100)
}

// pretty indents JSON; large numbers stay as they are written.
func pretty(text json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return string(text)
	}
	return b.String()
}

// plain shows control characters, which terminals and browsers obey, as the pictures that Unicode has for them.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ':
			return '\u2400' + r
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		default:
			return r
		}
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

// arguments returns a map of names and values in turn.
func arguments(pairs ...any) (map[string]any, error) {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("argument %d is not a name", i+1)
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// deref returns what a pointer points to; nil gives the empty string.
func deref(v any) any {
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && !p.IsNil() {
		return p.Elem().Interface()
	}
	return ""
}

// stateWord returns a state of any type as the pages of every site write it, to be translated. Suppliers and operators
// thus say the same of one delivery, and a program's words are found by those of a page.
func stateWord(state any) string {
	switch text := fmt.Sprint(state); text {
	case "":
		return "All"
	case "enqueued", "estimated", "selected", // requests
		"pending", "delivered", "dead", "failed", "undelivered", // deliveries; failed: requests too
		"active", "failing", "paused", "nothing sent yet", "last call failed": // receivers
		return strings.ToUpper(text[:1]) + text[1:]
	case "none": // of a receiver
		return "Not set"
	case "true": // of a supplier
		return "Active"
	case "false":
		return "Deactivated"
	default:
		return text
	}
}

// kindOf returns the colour of a state of any type.
func kindOf(state any) string {
	switch fmt.Sprint(state) {
	case "delivered", "estimated", "selected", "active", "true":
		return "good"
	case "pending", "enqueued":
		return "busy"
	case "dead", "failed", "failing":
		return "bad"
	case "paused", "last call failed":
		return "warn"
	default:
		return "calm"
	}
}
