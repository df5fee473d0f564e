// Package samples holds whole suppliers in other languages, which the service shows under /docs too.
package samples

import (
	"embed"
	"path"
)

//go:embed python/supplier.py typescript
var files embed.FS

// Files returns the sources by their names.
func Files() map[string][]byte {
	sources := map[string][]byte{}
	for _, name := range []string{"python/supplier.py", "typescript/hub.ts", "typescript/supplier.ts",
		"typescript/package.json", "typescript/package-lock.json", "typescript/tsconfig.json"} {
		content, err := files.ReadFile(name)
		if err == nil { // embedded files can be read
			sources[path.Base(name)] = content
		}
	}
	return sources
}
