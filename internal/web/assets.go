package web

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
)

// assets are the embedded files, each under its checksum: an address never changes its content.
type assets struct {
	prefix string
	files  map[string]asset
}

type asset struct {
	sum, contentType string
	content          []byte
}

func newAssets(prefix string) (*assets, error) {
	names, err := fs.Glob(embedded, "assets/*")
	if err != nil {
		return nil, err
	}
	// They do not depend on the machine's own table.
	types := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".svg": "image/svg+xml"}
	a := &assets{prefix: prefix, files: make(map[string]asset, len(names))}
	for _, name := range names {
		content, err := fs.ReadFile(embedded, name)
		if err != nil {
			return nil, fmt.Errorf("read asset: %w", err)
		}
		sum := sha256.Sum256(content)
		a.files[path.Base(name)] = asset{hex.EncodeToString(sum[:8]), types[path.Ext(name)], content}
	}
	return a, nil
}

// address returns where a page finds the file; an unknown one fails the page.
func (a *assets) address(name string) (string, error) {
	file, ok := a.files[name]
	if !ok {
		return "", fmt.Errorf("no asset %s", name)
	}
	return a.prefix + file.sum + "/" + name, nil
}
