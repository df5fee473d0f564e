// Package web is the frame of the service's pages: layout, languages, stylesheet, script and charts, all embedded. It
// knows no feature and no session. A set of pages is a Site:
//
//   - New takes the pages (NAME.html, each defining "title" and "main") and parts.html, which all of them may use. It
//     fails when a page does not parse. The Portuguese of all sites is in pt.json, the English text as key; tests check
//     that every text has it.
//   - Site.Routes adds the assets, Site.Render answers with a page, Site.Answer with the outcome of an action.
//   - A form with the attribute data-action is sent by the page's script with the header that SameOrigin asks for. The
//     script then shows the message of the Answer in the region with role status, and reads the page again.
//   - An element with data-live="SECONDS" around it is read again while it is on the screen.
//
// Templates have the functions of funcs.go, and the parts of templates/parts.html.
package web

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

//go:embed templates assets pt.json
var embedded embed.FS

// shared is the file whose templates all pages of a site may use.
const shared = "parts.html"

// Link is an entry of the navigation; its Text is translated. Path is below the site's base.
type Link struct{ Text, Path string }

// Config is what a Site is made of.
type Config struct {
	Base      string           // path of the first page, such as /portal
	Title     string           // of every page, behind the page's own; translated
	SignOut   string           // path below the base that ends the session; empty: there is none
	Pages     fs.FS            // NAME.html, in pages
	Functions template.FuncMap // more functions for the pages; nil: none
	Now       func() time.Time // what is past on a page
}

// Site is a set of pages in every language. It is safe for concurrent use.
type Site struct {
	cfg       Config
	assets    *assets
	languages []*locale
	matcher   language.Matcher
}

// locale is one language: its texts, its numbers and its pages.
type locale struct {
	tag     string // of the attribute lang
	name    string // in the language itself
	texts   map[string]string
	forms   func() []form
	printer *message.Printer
	pages   func() map[string]*template.Template // parsed when they are first asked for: most processes show none
}

// New reads the pages.
func New(cfg Config) (*Site, error) {
	assets, err := newAssets(cfg.Base + "/assets/")
	if err != nil {
		return nil, err
	}
	if cfg.Pages, err = fs.Sub(cfg.Pages, "pages"); err != nil {
		return nil, err
	}
	var portuguese map[string]string
	if content, err := embedded.ReadFile("pt.json"); err != nil {
		return nil, fmt.Errorf("read translations: %w", err)
	} else if err := json.Unmarshal(content, &portuguese); err != nil {
		return nil, fmt.Errorf("read translations: %w", err)
	}
	s := &Site{cfg: cfg, assets: assets, matcher: language.NewMatcher([]language.Tag{language.English,
		language.Portuguese})}
	s.languages = []*locale{
		{tag: "en", name: "English", printer: message.NewPrinter(language.English)},
		{tag: "pt", name: "Português", texts: portuguese, printer: message.NewPrinter(language.BrazilianPortuguese)},
	}
	for _, l := range s.languages {
		if _, err := s.parse(l); err != nil {
			return nil, err
		}
		l.forms = sync.OnceValue(func() []form { return formsOf(l.texts) })
		l.pages = sync.OnceValue(func() map[string]*template.Template {
			pages, _ := s.parse(l) // it was parsed above, of the same embedded files
			return pages
		})
	}
	return s, nil
}

// parse reads every page together with the layout and the parts; the functions know the language.
func (s *Site) parse(l *locale) (map[string]*template.Template, error) {
	frame, err := template.New("layout.html").Funcs(s.functions(l)).ParseFS(embedded, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("read layout: %w", err)
	}
	if _, err := fs.Stat(s.cfg.Pages, shared); err == nil {
		if frame, err = frame.ParseFS(s.cfg.Pages, shared); err != nil {
			return nil, fmt.Errorf("read %s: %w", shared, err)
		}
	}
	files, err := fs.Glob(s.cfg.Pages, "*.html")
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("no pages for %s", s.cfg.Base), err)
	}
	pages := make(map[string]*template.Template, len(files))
	for _, file := range files {
		if file == shared {
			continue
		}
		page, err := template.Must(frame.Clone()).ParseFS(s.cfg.Pages, file)
		if err != nil {
			return nil, fmt.Errorf("read page %s: %w", file, err)
		}
		pages[strings.TrimSuffix(path.Base(file), ".html")] = page
	}
	return pages, nil
}

// translate returns the text in the language, with its arguments, which other code may have filled in before; English
// where there is no translation. The status before why a call failed stays as it is.
func (l *locale) translate(text string, arguments ...any) string {
	if status, why, found := strings.Cut(text, ": "); found && strings.HasPrefix(status, "status ") {
		return status + ": " + l.translate(why, arguments...)
	}
	if translated := l.texts[text]; translated != "" {
		text = translated
	} else if len(arguments) == 0 {
		for _, f := range l.forms() {
			if filled := f.english.FindStringSubmatch(text); filled != nil {
				text = f.text
				for _, part := range filled[1:] {
					arguments = append(arguments, part)
				}
				break
			}
		}
	}
	if len(arguments) == 0 {
		return text
	}
	return l.printer.Sprintf(text, arguments...)
}

// form is a text with places: its pattern in English, and the text in the language with a %s for each place.
type form struct {
	english *regexp.Regexp
	text    string
}

// formsOf returns the texts that have places, the longest first: it says most.
func formsOf(texts map[string]string) (list []form) {
	places := regexp.MustCompile(`%[dqs]`)
	for _, english := range slices.SortedFunc(maps.Keys(texts), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	}) {
		if places.MatchString(english) {
			pattern := strings.ReplaceAll(regexp.QuoteMeta(english), "%d", `([\d.,]+)`)
			pattern = places.ReplaceAllLiteralString(pattern, "(.+)")
			list = append(list, form{regexp.MustCompile("^" + pattern + "$"), places.ReplaceAllString(texts[english], "%s")})
		}
	}
	return list
}
