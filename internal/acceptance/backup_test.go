package acceptance

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
)

// backups returns how many are made and restored: more with SUPPLYHUB_TEST_CHAOS, as each starts a service.
func backups() int {
	if inFull() {
		return 28
	}
	return 6
}

// restored starts a service of its own on what a backup holds.
func restored(t *testing.T, file string) *apptest.Hub {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if out, errOut, code := runIn(t, t.TempDir(), "api", []string{"DATA_DIR=" + dir}, "restore", file); code != 0 {
		t.Fatalf("restore: exit code %d: %s%s", code, out, errOut)
	}
	return apptest.Start(t, apptest.Embedded, apptest.Options{Env: map[string]string{"DATA_DIR": dir}})
}

func TestBackup_of_a_service_under_load_has_all_that_was_accepted_before(t *testing.T) {
	t.Parallel()
	h, s := faultHub(t, apptest.Embedded, nil)
	l := (&chaos{t: t, hub: h, supplier: s}).startClients()
	l.reaches(t, 50)
	for i := range backups() {
		before := l.all()
		file := filepath.Join(t.TempDir(), fmt.Sprintf("%d.tar", i))
		made := apptest.MustCommand[struct {
			File  string
			Bytes int64
			Holds []string
		}](t, h, "backup", file)
		info, err := os.Stat(file)
		if err != nil || info.Mode() != 0o600 || info.Size() != made.Bytes || made.File != file {
			t.Fatalf("%+v: %v, %v", made, info, err)
		}
		l.reaches(t, 5)
		copied := restored(t, file)
		status, detail, _ := doctor(t, copied, "api", nil).said(t, "database file")
		if status != "ok" {
			t.Errorf("backup %d: %s", i, detail)
		}
		holdsAll(t, copied, s, before)
		copied.APIs[0].Stop()
	}
	l.settle(t, s)
	if _, errOut, code := h.Command(t, "restore", filepath.Join(t.TempDir(), "none.tar")); code != 1 {
		t.Errorf("restore of nothing: %s", errOut)
	}
	accounted(t, h)
}

// all returns the requests that are accepted by now.
func (l *clients) all() map[int64]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.ids)
}

// aBackup returns a backup of a service that was used, as the files of its tar.
func aBackup(t *testing.T) (entries []entry, whole []byte) {
	t.Helper()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	s := h.Supplier(t)
	for range 50 {
		becomes(t, s, submit(t, s, nil), "estimated")
	}
	file := filepath.Join(t.TempDir(), "whole.tar")
	for want := range 2 { // the second time it is there
		if _, errOut, code := h.Command(t, "backup", file); code != want {
			t.Fatalf("exit code %d: %s", code, errOut)
		}
	}
	_, errOut, code := h.Command(t, "restore", file)
	if code != 1 || !strings.Contains(errOut, "a service runs on DATA_DIR") {
		t.Errorf("while the service runs: exit code %d, %s", code, errOut)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(bytes.NewReader(whole)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries, whole
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry{header.Name, tar.TypeReg, content})
	}
}

// entry is a file of a tar.
type entry struct {
	name    string
	kind    byte
	content []byte
}

// tarOf makes a tar whose mark, if it has one, has the sizes and digests of its files.
func tarOf(t *testing.T, entries []entry) []byte {
	t.Helper()
	var mark map[string]any
	if entries[0].name != "supplyhub-backup.json" || json.Unmarshal(entries[0].content, &mark) != nil {
		return tarAsItIs(t, entries)
	}
	var files []map[string]any
	for _, e := range entries[1:] {
		files = append(files, map[string]any{"name": e.name, "size": len(e.content),
			"sha256": fmt.Sprintf("%x", sha256.Sum256(e.content))})
	}
	mark["files"] = files
	text, err := json.Marshal(mark)
	if err != nil {
		t.Fatal(err)
	}
	return tarAsItIs(t, append([]entry{{entries[0].name, entries[0].kind, text}}, entries[1:]...))
}

// tarAsItIs makes a tar of the entries.
func tarAsItIs(t *testing.T, entries []entry) []byte {
	t.Helper()
	var whole bytes.Buffer
	w := tar.NewWriter(&whole)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Typeflag: e.kind, Size: int64(len(e.content)), Mode: 0o644}
		if e.kind != tar.TypeReg {
			header.Linkname, header.Size = "/etc/passwd", 0
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if e.kind == tar.TypeReg {
			if _, err := w.Write(e.content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return whole.Bytes()
}

// changed returns the entries with one replaced.
func changed(entries []entry, name string, by ...entry) (list []entry) {
	for _, e := range entries {
		if e.name == name {
			list = append(list, by...)
		} else {
			list = append(list, e)
		}
	}
	return list
}

// sparse has an entry whose few bytes name a file of the size: GNU's form 1.0 in PAX records, its own when the size is
// 0.
func sparse(t *testing.T, entries []entry, name string, size int64) []byte {
	t.Helper()
	var before, after []entry
	at := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
	before, after = entries[:at], entries[at+1:]
	head := bytes.TrimRight(tarAsItIs(t, before), "\x00")
	head = append(head, make([]byte, -len(head)&511)...)
	var whole bytes.Buffer
	whole.Write(head)
	if size == 0 { // a header of type S, with no data and 3 GiB
		block := make([]byte, 512)
		copy(block, name)
		copy(block[100:], "0000600\x000000000\x000000000\x0000000000000\x0000000000000\x00        S")
		copy(block[257:], "ustar  \x00")
		copy(block[386:], "30000000000\x0000000000000\x00") // one fragment, empty, at the end
		copy(block[483:], "30000000000\x00")
		sum := 0
		for _, b := range block {
			sum += int(b)
		}
		copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
		whole.Write(block)
		whole.Write(tarAsItIs(t, after))
		return whole.Bytes()
	}
	w := tar.NewWriter(&whole)
	text := fmt.Sprintf("1\n%d\n0\n", size)
	if err := w.WriteHeader(&tar.Header{Name: "GNUSparseFile.0/" + name, Typeflag: tar.TypeReg, Size: 512, Mode: 0o600,
		Format: tar.FormatPAX}); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(append([]byte(text), make([]byte, 512-len(text))...)) // into memory
	_ = w.Flush()
	record := func(key, value string) string {
		n := len(key) + len(value) + 3
		for n != len(fmt.Sprintf("%d %s=%s\n", n, key, value)) {
			n++
		}
		return fmt.Sprintf("%d %s=%s\n", n, key, value)
	}
	records := record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0") + record("GNU.sparse.name", name) +
		record("GNU.sparse.realsize", fmt.Sprint(size))
	var pax bytes.Buffer
	x := tar.NewWriter(&pax)
	if err := x.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: int64(len(records))}); err != nil {
		t.Fatal(err)
	}
	_, _ = x.Write([]byte(records)) // into memory
	_ = x.Flush()
	block := pax.Bytes()
	sum := 0
	block[156] = 'x'
	copy(block[148:156], "        ")
	for _, b := range block[:512] {
		sum += int(b)
	}
	copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
	return slices.Concat(head, block, whole.Bytes()[len(head):], tarAsItIs(t, after))
}

func TestRestore_refuses_what_is_no_whole_backup_and_leaves_nothing(t *testing.T) {
	t.Parallel()
	entries, whole := aBackup(t)
	const database = "supplyhub.db"
	last := entries[len(entries)-1]
	content := last.content
	newer := bytes.Replace(entries[0].content, []byte(`"format":1`), []byte(`"format":2`), 1)
	file := func(name string) entry { return entry{name, tar.TypeReg, []byte("x")} }
	behind := func(e entry) []byte { return tarOf(t, append(slices.Clone(entries), e)) }
	before := func(e entry) []byte { return tarOf(t, changed(entries, database, e, last)) }
	instead := func(name string, content []byte) []byte {
		return tarOf(t, changed(entries, name, entry{name, tar.TypeReg, content}))
	}
	link, larger := entry{database, tar.TypeSymlink, nil}, entry{database, tar.TypeReg, append(slices.Clone(content), 0)}
	unmarked := entry{entries[0].name, tar.TypeReg, []byte(`{"format":1}`)}
	tests := map[string]struct {
		tar  []byte
		says string
	}{
		"an empty file":                 {nil, "no backup"},
		"no tar":                        {bytes.Repeat([]byte("text "), 1000), "no backup"},
		"another tar":                   {tarOf(t, []entry{file("hello.txt")}), "no backup"},
		"cut off in the database":       {whole[:len(whole)/2], "no backup"},
		"cut off behind the database":   {whole[:len(whole)-3*512-1024], "no backup"},
		"the digests gone":              {tarAsItIs(t, changed(entries, entries[0].name, unmarked)), "no backup"},
		"one byte other":                {flipped(whole, len(whole)/2), "no backup"},
		"no database":                   {tarOf(t, changed(entries, database)), "no supplyhub.db"},
		"two databases":                 {behind(file(database)), "no backup"},
		"a name that points outside":    {before(file("../evil")), "no backup"},
		"an absolute name":              {before(file("/tmp/supplyhub-evil")), "no backup"},
		"a name below":                  {before(file("nats/evil")), "no backup"},
		"a file that no backup has":     {before(file("other")), "no backup"},
		"a link as the database":        {tarOf(t, changed(entries, database, link)), "no plain"},
		"a directory as a key":          {before(entry{"demo.env", tar.TypeDir, nil}), "no plain"},
		"something behind its end":      {tarAsItIs(t, append(slices.Clone(entries), file("demo.env"))), "no backup"},
		"a newer format":                {instead(entries[0].name, newer), "format 2"},
		"a database that is none":       {instead(database, bytes.Repeat([]byte("text "), 2000)), "file is not a database"},
		"a database that is empty":      {instead(database, nil), "none of supplyhub's"},
		"a damaged database":            {instead(database, damaged(content)), "damaged"},
		"a database of a newer version": {instead(database, ofNewer(t, content)), "newer"},
		"larger than its mark says":     {tarAsItIs(t, changed(entries, database, larger)), "larger"},
		"a sparse database":             {sparse(t, entries, database, 3<<30), "no plain"},
		"an older sparse database":      {sparse(t, entries, database, 0), "no plain"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			around := t.TempDir()
			data, from := filepath.Join(around, "data"), filepath.Join(t.TempDir(), "broken.tar")
			if err := os.WriteFile(from, test.tar, 0o600); err != nil {
				t.Fatal(err)
			}
			_, errOut, code := runIn(t, around, "api", []string{"DATA_DIR=" + data}, "restore", from)
			if code != 1 || !strings.Contains(errOut, test.says) {
				t.Errorf("exit code %d, %s", code, errOut)
			}
			if left := files(t, around); len(left) > 2 { // itself and DATA_DIR
				t.Errorf("it left %v", left)
			}
			if _, err := os.Stat("/tmp/supplyhub-evil"); err == nil {
				t.Error("it wrote outside of DATA_DIR")
			}
		})
	}
	t.Run("demo.env is left out: a shell runs what is in it", func(t *testing.T) {
		t.Parallel()
		data, from := t.TempDir(), filepath.Join(t.TempDir(), "whole.tar")
		if err := os.WriteFile(from, before(file("demo.env")), 0o600); err != nil {
			t.Fatal(err)
		}
		out, errOut, code := runIn(t, data, "api", []string{"DATA_DIR=" + data}, "restore", from)
		if left := files(t, data); code != 0 || slices.Contains(left, "/demo.env") || strings.Contains(out, "demo.env") {
			t.Errorf("exit code %d, %s%s: %v", code, out, errOut, left)
		}
	})
	t.Run("a directory that is not empty", func(t *testing.T) {
		t.Parallel()
		data, from := t.TempDir(), filepath.Join(t.TempDir(), "whole.tar")
		if err := errors.Join(os.WriteFile(from, tarOf(t, entries), 0o600),
			os.WriteFile(filepath.Join(data, "mine"), []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
		_, errOut, code := runIn(t, data, "api", []string{"DATA_DIR=" + data}, "restore", from)
		if code != 1 || !strings.Contains(errOut, "is not empty") || len(files(t, data)) != 2 {
			t.Errorf("exit code %d, %s", code, errOut)
		}
	})
	t.Run("a restore that broke off is not served", func(t *testing.T) {
		t.Parallel()
		data := t.TempDir()
		if err := os.Mkdir(filepath.Join(data, ".restore"), 0o700); err != nil {
			t.Fatal(err)
		}
		_, errOut, code := runIn(t, data, "api", []string{"DATA_DIR=" + data, "HTTP_ADDR=127.0.0.1:0",
			"ADMIN_ADDR=127.0.0.1:0"}, "serve")
		if code != 1 || !strings.Contains(errOut, "run it again") || len(files(t, data)) != 2 {
			t.Errorf("exit code %d, %s", code, errOut)
		}
	})
}

// TestBackup_killed keeps a backup from its end by a file that has no end, when its copy of the database is there.
func TestBackup_killed_leaves_nothing_behind_the_next_one(t *testing.T) {
	t.Parallel()
	h, dir := apptest.Start(t, apptest.Embedded, apptest.Options{}), t.TempDir()
	endless := filepath.Join(h.Env["DATA_DIR"], "demo.env")
	if err := syscall.Mkfifo(endless, 0o600); err != nil {
		t.Fatal(err)
	}
	backup := exec.CommandContext(t.Context(), apptest.Binary(t, "api"), "backup", filepath.Join(dir, "killed.tar"))
	for name, value := range h.Env {
		backup.Env = append(backup.Env, name+"="+value)
	}
	if err := backup.Start(); err != nil {
		t.Fatal(err)
	}
	left := func() int {
		found, err := filepath.Glob(filepath.Join(dir, ".supplyhub-backup", "files", "supplyhub.db"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	var writer *os.File // while it is open the backup reads on
	wait.Until(t, "the backup has copied the database and reads the file", func() (reads bool) {
		var err error
		writer, err = os.OpenFile(endless, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil
	})
	defer writer.Close()
	if left() != 1 {
		t.Fatal("the database is not copied")
	}
	if err := os.Remove(endless); err != nil {
		t.Fatal(err)
	}
	_, errOut, code := h.Command(t, "backup", filepath.Join(dir, "second.tar"))
	if code != 1 || !strings.Contains(errOut, "another backup into "+dir+" is under way") || left() != 1 {
		t.Errorf("a second one at the same time: exit code %d, %s", code, errOut)
	}
	if err := backup.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = backup.Wait() // it was killed
	apptest.MustCommand[object](t, h, "backup", filepath.Join(dir, "next.tar"))
	if names := files(t, dir); !slices.Equal(names, []string{"", "/next.tar"}) {
		t.Errorf("next to the backups are %v", names)
	}
}

func flipped(whole []byte, at int) []byte {
	whole = bytes.Clone(whole)
	whole[at] ^= 1
	return whole
}

// damaged exchanges pages of a database, as a copy does that is made while the file changes.
func damaged(content []byte) []byte {
	page := int(binary.BigEndian.Uint16(content[16:]))
	content = bytes.Clone(content)
	for at := 4 * page; at+2*page <= len(content); at += 2 * page {
		first := bytes.Clone(content[at : at+page])
		copy(content[at:], content[at+page:at+2*page])
		copy(content[at+page:], first)
	}
	return content
}

// openSQLite opens the database in a directory.
func openSQLite(t *testing.T, dir string) *sql.DB {
	t.Helper()
	return openDatabase(t, &apptest.Hub{Stack: apptest.Embedded, Env: map[string]string{"DATA_DIR": dir}})
}

// ofNewer returns the database with a migration that this build does not know.
func ofNewer(t *testing.T, content []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "supplyhub.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	db := openSQLite(t, dir)
	_, err := db.ExecContext(t.Context(), `INSERT INTO schema_versions (version_id, is_applied) VALUES (9999, 1)`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	content, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestDamagedFile_is_found_by_the_doctor_and_at_start_and_is_no_backup(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	s := h.Supplier(t)
	for range 20 {
		becomes(t, s, submit(t, s, nil), "estimated")
	}
	if code := h.APIs[0].Stop(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	path := filepath.Join(h.Env["DATA_DIR"], "supplyhub.db")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		content []byte
		starts  bool // only reading all of it finds it
	}{
		"exchanged pages":       {damaged(content), false},
		"cut off":               {content[:len(content)*3/4], false},
		"indexes of other rows": {wrongIndexes(t, content), true},
	} {
		if err := os.WriteFile(path, test.content, 0o600); err != nil {
			t.Fatal(err)
		}
		out, _, code := h.Command(t, "doctor", "-o", "json")
		if code != 1 || !strings.Contains(out, "damaged") && !strings.Contains(out, "malformed") {
			t.Errorf("%s: the doctor says, with exit code %d: %s", name, code, out)
		}
		if _, errOut, code := h.Command(t, "backup", filepath.Join(t.TempDir(), "b.tar")); code != 1 && !test.starts {
			t.Errorf("%s: a backup is made, exit code %d: %s", name, code, errOut)
		}
		if test.starts {
			continue
		}
		if _, errOut, code := h.Command(t, "serve"); code != 1 || !strings.Contains(errOut, "restore a backup") {
			t.Errorf("%s: the start's exit code is %d: %s", name, code, errOut)
		}
	}
}

// wrongIndexes returns the database with two indexes of a table exchanged: each lacks what the other has.
func wrongIndexes(t *testing.T, content []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "supplyhub.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	db := openSQLite(t, dir)
	db.SetMaxOpenConns(1) // the pragma is the connection's
	_, err := db.ExecContext(t.Context(), `PRAGMA writable_schema = 1;
		CREATE TABLE aside AS SELECT name, sum(rootpage) OVER () - rootpage AS rootpage FROM (SELECT name, rootpage
			FROM sqlite_master WHERE name IN ('material_requests_enqueued', 'material_requests_listed'));
		UPDATE sqlite_master SET rootpage = aside.rootpage FROM aside WHERE aside.name = sqlite_master.name`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	content, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestBackup_of_PostgreSQL_says_what_to_use_and_what_to_keep(t *testing.T) {
	t.Parallel()
	env := []string{"DATABASE_URL=postgres://none@127.0.0.1:1/none", "NATS_URL=nats://127.0.0.1:1"}
	for _, command := range []string{"backup", "restore"} {
		dir := t.TempDir()
		out, errOut, code := runIn(t, dir, "api", env, command, "file.tar", "-o", "json")
		if code != 1 || out != "" || len(files(t, dir)) != 1 {
			t.Errorf("%s: exit code %d, %s, files %v", command, code, out, files(t, dir))
		}
		for _, word := range []string{"pg_dump", "base backup", "ANALYZE", "JWT_SIGNING_KEYS", "SECRETS_KEY",
			"WEBHOOK_SIGNING_SECRETS"} {
			if !strings.Contains(errOut, word) {
				t.Errorf("%s does not name %s: %s", command, word, errOut)
			}
		}
	}
}

func TestDump_of_PostgreSQL_under_load_restores_all_that_was_accepted_before(t *testing.T) {
	t.Parallel()
	server, err := cluster.Start(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	h, s := faultHub(t, apptest.Production, map[string]string{"DATABASE_URL": server.Address()})
	l := (&chaos{t: t, hub: h, supplier: s}).startClients()
	l.reaches(t, 100)
	before, env := l.all(), map[string]string{}
	for _, name := range []string{"JWT_SIGNING_KEYS", "SECRETS_KEY", "WEBHOOK_SIGNING_SECRETS"} {
		env[name] = h.Env[name]
	}
	env["DATABASE_URL"] = dumped(t, server, env, func() {
		l.reaches(t, 20)
		l.settle(t, s)
	})
	copied := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1, Env: env})
	holdsAll(t, copied, s, before)
}

// holdsAll fails unless the service on what was restored has all of these requests, estimates them and accounts for
// everything.
func holdsAll(t *testing.T, h *apptest.Hub, s *apptest.Supplier, accepted map[int64]bool) {
	t.Helper()
	there := map[int64]bool{}
	rows, err := openDatabase(t, h).QueryContext(t.Context(), `SELECT id FROM material_requests`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		there[id] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for id := range accepted {
		if !there[id] {
			t.Errorf("request %d is not there, which was accepted before the backup began", id)
		}
	}
	a := h.Do(t, http.MethodPost, tokenPath, nil, "x-api-key", s.APIKey)
	want(t, a, http.StatusOK)
	token := apptest.Decode[apptest.Tokens](t, a).AccessToken
	id := nextID()
	want(t, h.Do(t, http.MethodPost, requests, request(id, nil), "Authorization", "Bearer "+token), http.StatusCreated)
	wait.Until(t, "all that was restored and one more are estimated", func() bool {
		for _, status := range []string{"enqueued", "failed"} {
			a := h.Do(t, http.MethodGet, requests+"?limit=1&status="+status, nil, "Authorization", "Bearer "+token)
			if a.Status != http.StatusOK || len(apptest.Decode[listing](t, a).Data) > 0 {
				return false
			}
		}
		return true
	})
	accounted(t, h)
}
