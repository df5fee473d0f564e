package httpapi

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/swaggest/swgui/v5/static"
	"github.com/vearutop/statigz"

	"github.com/supplyhub/supplyhub/deployments/samples"
	"github.com/supplyhub/supplyhub/internal/errs"
)

//go:embed docs
var docsFiles embed.FS

// docsPolicy keeps the pages from loading anything from elsewhere and from running scripts that are in a page.
const docsPolicy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// docsPage is a page of the documentation, at /docs/{Name}.
type docsPage struct{ Name, Title string }

// docsPages are the pages in the order of the navigation. The reference, at /docs, is not among them.
var docsPages = []docsPage{
	{"requests", "Material requests"}, {"authentication", "Authentication"}, {"webhooks", "Webhooks"},
	{"errors", "Errors"}, {"retries", "Retries"}, {"estimates", "Estimates"}, {"trackers", "Trackers"},
	{"scoreboard", "Scoreboard"},
}

// Docs serves the documentation: the reference at /docs, pages and assets at /docs/*file. version is shown.
func Docs(version string) Handler {
	files, err := docsAssets(version)
	missing, failed := renderDocs(docsPage{"missing", "Not found"}, version)
	err = errors.Join(err, failed)
	swagger := http.StripPrefix("/docs/", statigz.FileServer(static.FS))
	return func(c *gin.Context) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(c.Param("file"), "/")
		file, own := files[name]
		switch known := own || isSwagger(name); {
		case !known && strings.Contains(c.GetHeader("Accept"), "text/html"):
			c.Header("Content-Security-Policy", docsPolicy)
			Shared(c, http.StatusNotFound, "text/html; charset=utf-8", missing)
			return nil
		case !known:
			return errs.New(errs.NotFound, "There is no such resource.")
		}
		if !own {
			if err := Hold(c, copiedBytes); err != nil {
				return err
			}
		}
		c.Header("Content-Security-Policy", docsPolicy)
		c.Header("Cache-Control", "public, max-age=300")
		if own {
			Shared(c, http.StatusOK, file.mediaType, file.content)
			return nil
		}
		c.Request.Header.Del("Range") // the files come whole or not at all
		swagger.ServeHTTP(c.Writer, c.Request)
		return nil
	}
}

type docsFile struct {
	mediaType string
	content   []byte
}

// docsAssets returns the files of our own by name; the empty name is the reference.
func docsAssets(version string) (map[string]docsFile, error) {
	files := map[string]docsFile{}
	for name, file := range map[string]string{"docs.css": "docs.css", "docs.js": "docs.js", "pages.js": "pages.js",
		"icon.svg": "icon.svg", "receiver.go": "receiver/main.go", "receiver.py": "receiver/receiver.py",
		"receiver.mjs": "receiver/receiver.mjs"} {
		content, err := docsFiles.ReadFile("docs/" + file)
		if err != nil {
			return nil, fmt.Errorf("read the documentation: %w", err)
		}
		mediaType := "text/plain; charset=utf-8" // shown, not run
		if name == file {
			mediaType = mime.TypeByExtension(path.Ext(name))
		}
		files[name] = docsFile{mediaType, content}
	}
	for name, content := range samples.Files() {
		files[name] = docsFile{"text/plain; charset=utf-8", content}
	}
	for _, p := range append([]docsPage{{"", "Reference"}}, docsPages...) {
		content, err := renderDocs(p, version)
		if err != nil {
			return nil, fmt.Errorf("make the page %q of the documentation: %w", p.Title, err)
		}
		files[p.Name] = docsFile{"text/html; charset=utf-8", content}
	}
	return files, nil
}

// renderDocs makes one page; the layout surrounds its own part.
func renderDocs(p docsPage, version string) ([]byte, error) {
	file := p.Name
	if file == "" {
		file = "reference"
	}
	layout, err := template.New("").Funcs(template.FuncMap{"code": docsCode}).ParseFS(docsFiles, "docs/layout.html",
		"docs/"+file+".html")
	if err != nil {
		return nil, err
	}
	var body, page bytes.Buffer
	if err := layout.ExecuteTemplate(&body, file+".html", nil); err != nil {
		return nil, err
	}
	err = layout.ExecuteTemplate(&page, "layout.html", map[string]any{
		"Name": p.Name, "Title": p.Title, "Reference": p.Name == "", "Pages": docsPages, "Version": version,
		"Body": template.HTML(body.String()), //nolint:gosec // our own template made it
	})
	return page.Bytes(), err
}

// docsCode returns a file of the documentation as text.
func docsCode(name string) (string, error) {
	content, err := docsFiles.ReadFile("docs/" + name)
	return string(bytes.TrimSpace(content)), err
}

func isSwagger(file string) bool {
	for _, name := range []string{file, file + ".gz"} {
		if info, err := fs.Stat(static.FS, name); file != "" && err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// Home answers the bare address with a page of the documentation's family, which links to it and to the portal.
func Home(version string) Handler {
	page, err := renderDocs(docsPage{"home", "Home"}, version)
	return func(c *gin.Context) error {
		if err != nil {
			return err
		}
		c.Header("Content-Security-Policy", docsPolicy)
		c.Header("Cache-Control", "public, max-age=300")
		Shared(c, http.StatusOK, "text/html; charset=utf-8", page)
		return nil
	}
}
