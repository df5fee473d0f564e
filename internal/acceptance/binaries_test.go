package acceptance

import (
	"debug/elf"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

// linked returns the size of a binary in bytes, without the symbols that a release build strips, and all that it links.
func linked(t *testing.T, name string) (size uint64, functions []elf.Symbol) {
	t.Helper()
	file, err := elf.Open(apptest.Binary(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, section := range file.Sections {
		if section.Flags&elf.SHF_ALLOC != 0 && section.Type != elf.SHT_NOBITS {
			size += section.Size
		}
	}
	if functions, err = file.Symbols(); err != nil {
		t.Fatal(err)
	}
	return size, functions
}

func TestWorker_links_no_SQLite_no_NATS_server_no_routes_and_no_pages(t *testing.T) {
	t.Parallel()
	size, functions := linked(t, "worker")
	own := "github.com/supplyhub/supplyhub/internal/"
	for _, unwanted := range []string{
		"modernc.org/sqlite", "github.com/nats-io/nats-server", "github.com/gin-gonic/gin.(*Context).",
		"github.com/quic-go/quic-go/http3.(",
		"github.com/swaggest/", own + "web.", own + "portal.", own + "console.", own + "tracker.",
	} {
		found := 0
		for _, f := range functions {
			if strings.HasPrefix(f.Name, unwanted) {
				found++
			}
		}
		if found > 0 {
			t.Errorf("the worker links %d symbols of %s", found, unwanted)
		}
	}
	checkSize(t, "worker", size, 33_500_000) // CLDR's names of regions are 2 MB of it
}

func TestAPI_does_not_grow_unseen(t *testing.T) {
	t.Parallel()
	size, _ := linked(t, "api")
	checkSize(t, "api", size, 54_700_000) // 53.6 MB are seen; CLDR's names of regions are 2.4 MB of it
}

// checkSize logs how large a release build is. Other machines' code and the race detector's have other sizes.
func checkSize(t *testing.T, name string, size, most uint64) {
	t.Helper()
	t.Logf("%s: %.1f MB", name, float64(size)/1e6)
	if size >= most && runtime.GOARCH == "amd64" && os.Getenv("SUPPLYHUB_TEST_RACE") == "" {
		t.Errorf("%s has %d bytes, not under %d", name, size, most)
	}
}
