package main

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// hostile is a name that clears the screen of a terminal that obeys it, sets its title and turns text round.
const hostile = "\x1b]0;PWNED\x07\x1b[2J\u009b1;1Hok \u202eevil\x7f"

// Each command gets something hostile to read where it reads anything.
func TestCommands_print_no_character_that_a_terminal_obeys(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DATA_DIR", filepath.Join(dir, "data"))
	t.Setenv("DATABASE_URL", "")
	t.Setenv("LOG_FORMAT", "json")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, hostile, http.StatusInternalServerError)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{hostileCertificate(t)}}
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Setenv("ESTIMATES_WEBHOOK_BASE_URL", server.URL)
	o := &commander{T: t}
	o.run(0, "migrate")
	o.run(1, "tracker", "client", "create", "--name", "Fleet")
	t.Setenv("LOG_FORMAT", "text")
	file := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	var archive bytes.Buffer
	w, mark := tar.NewWriter(&archive), fmt.Sprintf(`{"format":9,"version":"9\u001b[2J%s"}`, "\u202e\u009b")
	if err := w.WriteHeader(&tar.Header{Name: "supplyhub-backup.json", Typeflag: tar.TypeReg,
		Size: int64(len(mark))}); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, mark) // into memory
	for _, args := range [][]string{
		{"doctor"}, {"doctor", "-o", "json"}, {hostile}, {"supplier", hostile}, {"delivery", "list", "--status", hostile},
		{"supplier", "update", hostile, "--name", "x"}, {"settings", "set", hostile, "1"},
		{"tracker", "load", file("a.csv", "imei,"+hostile+"\n1,2\n"), "--client", "Fleet"},
		{"tracker", "load", file("b.ndjson", `{"imei":1,"`+strings.ReplaceAll(hostile, "\x07", "")+`":"\u001b[2J"}`),
			"--client",
			"Fleet"},
		{"tracker", "load", file("c.csv", "imei,dt_carga\n\xff\x9b2J,"+hostile+"\n"), "--client", "Fleet"},
		{"restore", file("d.tar", archive.String())}, {"restore", file("e.tar", hostile)},
		{"top"}, {"tracker", "client", "list"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), args, &stdout, &stderr)
		for _, out := range []string{stdout.String(), stderr.String()} {
			for _, r := range out {
				if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
					t.Errorf("%q (exit code %d) prints %U: %q", args, code, r, out)
					break
				}
			}
			if !utf8.ValidString(out) {
				t.Errorf("%q prints a byte that is no text: %q", args, out)
			}
		}
		if stdout.Len()+stderr.Len() == 0 {
			t.Errorf("%q prints nothing", args)
		}
	}
}

// hostileCertificate returns a certificate whose names a terminal would obey.
func hostileCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	name := pkix.Name{CommonName: hostile, Organization: []string{hostile}}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: name, Issuer: name,
		DNSNames:  []string{"a\x1b[2J.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
