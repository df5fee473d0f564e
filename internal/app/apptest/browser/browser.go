// Package browser drives headless Chromium through pages as a reader does, by accessible names, and keeps what went
// wrong on the way: errors on the console and requests to other hosts.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	stdlog "log"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

const (
	patience = time.Minute // for every step
	comingUp = time.Minute // for the browser to start
	height   = 900
)

// Options say what the reader has.
type Options struct {
	Width    int
	Language string // Accept-Language
	Zone     string // such as America/Sao_Paulo; empty: the machine's
	Dark     bool
	Scripts  bool // whether JavaScript runs
}

// Browser is one reader with cookies of its own.
type Browser struct {
	tb       testing.TB
	ctx      context.Context
	mu       sync.Mutex
	hosts    map[string]bool
	faults   []string
	received int64
}

// Start opens a browser that ends with the test. Where there is no Chromium the test is skipped, and says so.
func Start(tb testing.TB, o Options) *Browser {
	tb.Helper()
	path, err := findOrInstall()
	if err != nil {
		tb.Skipf("NOT TESTED in a browser: %v", err)
	}
	for range 3 {
		if b := open(tb, path, o); b != nil {
			return b
		}
	}
	tb.Fatalf("the browser did not come up within %s, three times", comingUp)
	return nil
}

// open starts a browser; nil: it did not come up. On a busy machine its first answer may be lost; it sends it once.
func open(tb testing.TB, path string, o Options) *Browser {
	tb.Helper()
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(o.Width, height), chromedp.Flag("lang", o.Language),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(comingUp))...)
	tb.Cleanup(cancel)
	ctx, cancelTab := chromedp.NewContext(allocator, chromedp.WithErrorf(complainf))
	tb.Cleanup(cancelTab)
	b := &Browser{tb: tb, ctx: ctx, hosts: map[string]bool{}}
	chromedp.ListenTarget(ctx, b.note)
	scheme := "light"
	if o.Dark {
		scheme = "dark"
	}
	actions := []chromedp.Action{network.Enable(), runtime.Enable(), log.Enable(),
		network.SetExtraHTTPHeaders(network.Headers{"Accept-Language": o.Language}),
		emulation.SetDeviceMetricsOverride(int64(o.Width), height, 1, o.Width < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		emulation.SetScriptExecutionDisabled(!o.Scripts)}
	if o.Zone != "" {
		actions = append(actions, emulation.SetTimezoneOverride(o.Zone))
	}
	started := make(chan error, 1)
	go func() { started <- chromedp.Run(ctx, actions...) }() // a context that ends would end the browser with it
	select {
	case err := <-started:
		if err != nil {
			tb.Fatalf("start: %v", err)
		}
		return b
	case <-time.After(comingUp):
		cancelTab()
		cancel()
		return nil
	}
}

// complainf prints what is wrong with the connection, but not that Chromium knows an event which the library does not.
func complainf(format string, args ...any) {
	if !strings.HasPrefix(format, "unhandled ") {
		stdlog.Printf("browser: "+format, args...)
	}
}

// note keeps what a page asked for and what went wrong.
func (b *Browser) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Host != "" {
			b.hosts[u.Host] = true
		}
	case *network.EventLoadingFinished:
		b.received += int64(e.EncodedDataLength)
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError {
			b.faults = append(b.faults, fmt.Sprint("console.error ", len(e.Args)))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError {
			b.faults = append(b.faults, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

func (b *Browser) do(what string, actions ...chromedp.Action) {
	b.tb.Helper()
	if err := b.try(actions...); err != nil {
		b.tb.Fatalf("%s: %v\n%s", what, err, b.text())
	}
}

func (b *Browser) try(actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, actions...)
}

// text returns what the page shows, for a failure.
func (b *Browser) text() string {
	var text string
	_ = b.try(chromedp.Evaluate(`location.href + "\n" + document.body.innerText`, &text))
	return text
}

// Open goes to an address.
func (b *Browser) Open(address string) {
	b.tb.Helper()
	b.do("open "+address, chromedp.Navigate(address))
}

// Faults returns the errors so far and forgets them.
func (b *Browser) Faults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	faults := b.faults
	b.faults = nil
	return faults
}

// Hosts returns all hosts that anything was asked of.
func (b *Browser) Hosts() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var hosts []string
	for host := range b.hosts {
		hosts = append(hosts, host)
	}
	return hosts
}

// Received returns how many bytes have come over the network.
func (b *Browser) Received() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.received
}

// Eval evaluates an expression on the page; one that is false, or fails while a page changes, is evaluated again.
func Eval[T any](b *Browser, expression string) T {
	b.tb.Helper()
	var v T
	b.do(expression, chromedp.Evaluate(expression, &v,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return v
}

// Until waits for an expression to hold.
func (b *Browser) Until(what, expression string) {
	b.tb.Helper()
	held := wait.Within(patience, func() (holds bool) {
		err := b.try(chromedp.Evaluate(expression, &holds))
		return err == nil && holds
	})
	if !held {
		b.tb.Fatalf("not within %s: %s\n%s", patience, what, b.text())
	}
}

// finder is a function of the page: the visible element of a role with an accessible name, null for none; in an open
// dialog, that is all there is.
const finder = `((role, name) => {
  const tags = {
    link: 'a[href]', button: 'button', table: 'table', textbox: 'input,textarea', combobox: 'select', figure: 'figure',
    checkbox: 'input[type=checkbox]',
  };
  const labelled = (e) => e.labels && e.labels[0] ? e.labels[0].textContent : e.textContent;
  const named = (e) => (e.getAttribute('aria-label') || labelled(e)).trim();
  const all = (document.querySelector('dialog[open]') || document).querySelectorAll(tags[role]);
  return [...all].find((e) => named(e) === name && e.checkVisibility()) || null;
})`

func element(role, name string) string {
	arguments, _ := json.Marshal([]string{role, name}) // strings always encode
	return finder + "(..." + string(arguments) + ")"
}

// Has waits for an element of a role with an accessible name.
func (b *Browser) Has(role, name string) {
	b.tb.Helper()
	b.Until(role+" "+name, element(role, name)+" !== null")
}

// Lacks waits until there is none.
func (b *Browser) Lacks(role, name string) {
	b.tb.Helper()
	b.Until("no "+role+" "+name, element(role, name)+" === null")
}

// Press puts the focus on an element by the keyboard, Tab after Tab, and presses the key there.
func (b *Browser) Press(role, name, key string) {
	b.tb.Helper()
	b.Focus(role, name)
	b.do("press "+key+" on "+name, chromedp.KeyEvent(key))
}

// Focus reaches an element by Tab alone.
func (b *Browser) Focus(role, name string) {
	b.tb.Helper()
	b.Has(role, name)
	for range 200 {
		var there bool
		if err := b.try(chromedp.Evaluate("document.activeElement === "+element(role, name), &there)); err == nil && there {
			return
		}
		b.do("press Tab", chromedp.KeyEvent("\t"))
	}
	b.tb.Fatalf("%s %s cannot be reached by Tab\n%s", role, name, b.text())
}

// Click presses an element with the mouse.
func (b *Browser) Click(role, name string) {
	b.tb.Helper()
	b.Has(role, name)
	b.do("click "+name, chromedp.Evaluate(element(role, name)+".click()", nil))
}

// Fill types over what a field has.
func (b *Browser) Fill(name, value string) {
	b.tb.Helper()
	b.Focus("textbox", name)
	b.do("fill "+name, chromedp.Evaluate("document.activeElement.select()", nil), chromedp.KeyEvent(value))
}

// Set sets a field's value as a picker does.
func (b *Browser) Set(role, name, value string) {
	b.tb.Helper()
	b.Has(role, name)
	text, _ := json.Marshal(value) // strings always encode
	b.do("set "+name, chromedp.Evaluate(element(role, name)+".value = "+string(text), nil))
}

// Status waits for a message in the region with role status and returns it.
func (b *Browser) Status() string {
	b.tb.Helper()
	const region = `document.querySelector('[role=status]').textContent.trim()`
	b.Until("a status message", region+` !== ''`)
	return Eval[string](b, region)
}

// Accessible fails for every violation that axe-core finds; where it cannot be had it says that nothing was checked.
func (b *Browser) Accessible() {
	b.tb.Helper()
	script, err := axe()
	if err != nil {
		b.tb.Skipf("accessibility NOT TESTED: %v", err)
	}
	b.do("load axe-core", chromedp.Evaluate(script+";true", nil))
	for _, violation := range Eval[[]string](b, `axe.run().then((r) => r.violations.map((v) => v.id + ': ' + v.help + ' ' +
		v.nodes.map((n) => n.html + ' ' + n.failureSummary).join('\n')))`) {
		b.tb.Errorf("%s: %s", Eval[string](b, "location.pathname"), violation)
	}
}

// Screenshot keeps a picture of the whole page where SUPPLYHUB_TEST_SCREENSHOTS says; nowhere when it says nothing.
func (b *Browser) Screenshot(name string) {
	b.tb.Helper()
	dir := os.Getenv("SUPPLYHUB_TEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	var picture []byte
	b.do("screenshot", chromedp.FullScreenshot(&picture, 100))
	if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, "/", "-")+".png"), picture, 0o600); err != nil {
		b.tb.Fatal(err)
	}
}
