package acceptance

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// only takes calls that allow has, and answers 404 to any other.
func only(t *testing.T, allow func(*http.Request) bool) *apptest.Receiver {
	t.Helper()
	return apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !allow(r) {
			w.WriteHeader(http.StatusNotFound)
		}
	})
}

func addressRules(t *testing.T, h *apptest.Hub) {
	for kind, test := range map[string]struct {
		address, called string
		allow           func(r *http.Request, id string) bool
	}{
		"with one exact path": {"/hooks/estimates/?request={id}", "/hooks/estimates/?request=…",
			func(r *http.Request, id string) bool {
				return r.URL.Path == "/hooks/estimates/" && r.FormValue("request") == id
			}},
		"with the documented path only": {"/base/", "/base/api/material-requests/{id}/delivery-estimates",
			func(r *http.Request, id string) bool {
				return r.URL.Path == "/base/api/material-requests/"+id+"/delivery-estimates"
			}},
		"behind a gateway's key in the query": {"/gate%2Fway/{id}/in?code=K3Y%2Fsecret&{id}",
			"/gate%2Fway/{id}/in?code=…&…",
			func(r *http.Request, id string) bool {
				return r.URL.RequestURI() == "/gate%2Fway/"+id+"/in?code=K3Y%2Fsecret&"+id
			}},
	} {
		rule(t, "a receiver "+kind+" is green in the test and gets its deliveries", func(t *testing.T) {
			s := h.Supplier(t)
			id := nextID()
			of := strconv.FormatInt(id, 10)
			receiver := only(t, func(r *http.Request) bool { return test.allow(r, "0") || test.allow(r, of) })
			want(t, s.Do(t, http.MethodPut, receiverPath, object{"url": receiver.URL + test.address}), 200)
			seen := func(id string) string { return receiver.URL + strings.ReplaceAll(test.called, "{id}", id) }
			result := tryReceiver(t, s)
			if result.Status == nil || *result.Status != 200 || result.Error != nil || result.URL != seen("0") {
				t.Errorf("the test: %+v", result)
			}
			want(t, s.Do(t, http.MethodPost, requests, request(id, nil)), 201)
			d := showDelivery(t, s, reaches(t, s, "delivered", 1)[0].ID)
			if len(d.Attempts) != 1 || d.Attempts[0].URL == nil || *d.Attempts[0].URL != seen(of) {
				t.Errorf("the attempts: %+v", d.Attempts)
			}
			operators := apptest.MustCommand[sentDelivery](t, h, "delivery", "show", d.ID)
			if len(operators.Attempts) != 1 || operators.Attempts[0].URL == nil || *operators.Attempts[0].URL != seen(of) {
				t.Errorf("the operator sees %+v", operators.Attempts)
			}
			for _, list := range [][]string{{"supplier", "list"}, {"receiver", "list"}, {"delivery", "show", d.ID}} {
				if out, _, _ := h.Command(t, append(list, "-o", "json")...); strings.Contains(out, "K3Y") {
					t.Errorf("%s shows what is in the query", list)
				}
			}
			if own := said(receiverOf(t, s).URL); own != receiver.URL+strings.TrimSuffix(test.address, "/") {
				t.Errorf("its supplier sees %s", own)
			}
		})
	}
	rule(t, "an address that would be called wrongly is refused with what was meant", func(t *testing.T) {
		s := h.Supplier(t)
		for address, meant := range map[string]string{
			"https://a.example/hook/api/material-requests/123/delivery-estimates": "set https://a.example/hook",
			"https://a.example/api/material-requests/:id/delivery-estimates/":     "set https://a.example",
			"https://a.example/x/delivery-estimates":                              "/x/delivery-estimates?request={id}",
			"https://a.example/hook?code=K3Y":                                     "?request={id}",
			"https://{id}.example/hook":                                           "valid address",
			"https://a.example/hook#{id}":                                         "fragment",
			"https://a.example/{request_id}/x":                                    "request's id",
			"a.example:8080/hook":                                                 "https://",
		} {
			p := wantProblem(t, s.Do(t, http.MethodPut, receiverPath, object{"url": address}), 400, "/url")
			if detail := p.Errors[0].Detail; !strings.HasSuffix(detail, meant) && !strings.Contains(detail, meant+" ") &&
				!strings.Contains(detail, meant+":") || strings.Contains(detail, "K3Y") {
				t.Errorf("%s: %q", address, detail)
			}
			if _, message, code := h.Command(t, "supplier", "update", s.ID, "--webhook-url", address); code != 1 ||
				strings.Contains(message, "K3Y") {
				t.Errorf("%s: the command ends with %d: %s", address, code, message)
			}
		}
		address := "http://u:K3Y@a.example:0/x/delivery-estimates#f"
		p := wantProblem(t, s.Do(t, http.MethodPut, receiverPath, object{"url": address}), 400, "/url", "/url", "/url",
			"/url")
		_, message, _ := h.Command(t, "supplier", "update", s.ID, "--webhook-url", address)
		for i, fault := range []string{"user or password", "a fragment", "a port",
			"set http://a.example:0/x/delivery-estimates?request={id}"} {
			if !strings.Contains(p.Errors[i].Detail, fault) || !strings.Contains(message, fault) {
				t.Errorf("of all faults of one address %q is not named: %+v, %s", fault, p.Errors, message)
			}
		}
		if strings.Contains(message+fmt.Sprint(p.Errors), "K3Y") {
			t.Errorf("a password is repeated: %+v, %s", p.Errors, message)
		}
	})
	rule(t, "a failed attempt says in the test's words what to do", func(t *testing.T) { sayWhatToDo(t, h) })
	rule(t, "a test call says which fault a certificate has", func(t *testing.T) { tellCertificatesApart(t, h) })
	rule(t, "the portal's first page says from the first call on what the last call came to, and so do the others",
		func(t *testing.T) { firstPage(t, h) })
}

func tryReceiver(t *testing.T, s *apptest.Supplier) testResult {
	t.Helper()
	return apptest.Decode[testResult](t, s.Do(t, http.MethodPost, receiverPath+"/test", nil))
}

func sayWhatToDo(t *testing.T, h *apptest.Hub) {
	for name, test := range map[string]struct {
		status int
		header []string
		says   string
		never  string
	}{
		"a wrong secret":     {401, nil, "signing secret", "firewall"},
		"a refusal":          {403, nil, "firewall", ""},
		"a firewall's page":  {403, []string{"Content-Type", "text/html; charset=UTF-8"}, "firewall", "secret"},
		"a page to sign in":  {401, []string{"Content-Type", "text/html"}, "sign in", "secret"},
		"nothing there":      {404, nil, "path", ""},
		"a redirect":         {308, []string{"Location", "/there/?key=K3Y"}, "/there/?key=…", "K3Y"},
		"a redirect nowhere": {302, nil, "its own log says why", "redirects"},
		"nothing new":        {304, []string{"Location", "/there"}, "its own log says why", "redirects"},
		"a bad call":         {400, nil, "does not take the call", "signing secret"},
		"gone":               {410, nil, "gone permanently", ""},
		"too many":           {429, nil, "raise its limit", ""},
		"out of order":       {500, nil, "its own log says why", "redirects"},
		"away":               {503, nil, "failed to take the call", ""},
		"well":               {204, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			receiver := apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				for i := 0; i+1 < len(test.header); i += 2 {
					w.Header().Set(test.header[i], test.header[i+1])
				}
				w.WriteHeader(test.status)
			})
			s := h.Supplier(t, "--webhook-url", receiver.URL)
			result := tryReceiver(t, s)
			submit(t, s, nil)
			end := map[int]string{204: "delivered", 410: "failed"}[test.status]
			d := showDelivery(t, s, reaches(t, s, cmp.Or(end, "dead"), 1)[0].ID)
			i := slices.IndexFunc(d.Attempts, func(a attempt) bool { return a.Status != nil })
			if i < 0 || *d.Attempts[i].Status != test.status || said(d.Attempts[i].Error) != said(result.Error) {
				t.Fatalf("the test says %+v, the attempts %+v", result, d.Attempts)
			}
			if text := said(result.Error); !strings.Contains(text, test.says) || (text == "") != (test.says == "") ||
				test.never != "" && strings.Contains(text, test.never) {
				t.Errorf("it says %q", text)
			}
			if end == "delivered" {
				return
			}
			wait.Until(t, "the receiver shows it", func() bool { return receiverOf(t, s).LastError != nil })
			if got := *receiverOf(t, s).LastError; !strings.HasPrefix(got, "status "+strconv.Itoa(test.status)) ||
				!strings.HasSuffix(got, said(result.Error)) {
				t.Errorf("the receiver's last error is %q", got)
			}
		})
	}
}

func said(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// certificateOf makes one that its issuer signed; without an issuer, itself.
func certificateOf(t *testing.T, change func(*x509.Certificate), issuer *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: t.Name()},
		DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	change(template)
	parent, signer := template, any(key)
	if issuer != nil {
		parent, signer = issuer.Leaf, issuer.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func tellCertificatesApart(t *testing.T, h *apptest.Hub) {
	authority := certificateOf(t, func(c *x509.Certificate) {
		c.Subject.CommonName, c.IsCA, c.BasicConstraintsValid = "an issuer", true, true
	}, nil)
	leaf := certificateOf(t, func(*x509.Certificate) {}, &authority)
	whole := leaf
	whole.Certificate = append(slices.Clone(leaf.Certificate), authority.Certificate[0])
	old := certificateOf(t, func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(time.Minute) }, nil)
	other := certificateOf(t, func(c *x509.Certificate) { c.DNSNames = []string{"b.example"} }, nil)
	texts := map[string]bool{}
	for says, config := range map[string]*tls.Config{
		"has expired":  {Certificates: []tls.Certificate{old}},
		"another name": {Certificates: []tls.Certificate{other}},
		"intermediate": {Certificates: []tls.Certificate{leaf}},
		"issuer":       {Certificates: []tls.Certificate{whole}},
		"version 1.2":  {Certificates: []tls.Certificate{leaf}, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10},
	} {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.TLS, server.Config.ErrorLog = config, log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		_, port, _ := strings.Cut(server.Listener.Addr().String(), ":")
		s := h.Supplier(t, "--webhook-url", "https://localhost:"+port)
		result := tryReceiver(t, s)
		if text := said(result.Error); !strings.Contains(text, says) || texts[text] {
			t.Errorf("%s: %q", says, text)
		} else {
			texts[text] = true
		}
	}
}

func firstPage(t *testing.T, h *apptest.Hub) {
	receiver, status := switchable(t, 404)
	s := h.Supplier(t)
	cookie := sessionOf(visit(t, http.MethodGet, portalLinkOf(t, s), ""))
	shows := func(texts ...string) {
		t.Helper()
		wait.Until(t, "the first page shows "+texts[0], func() bool {
			body := string(visit(t, http.MethodGet, h.URL(0, "/portal"), cookie).Body)
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(body, text) })
		})
	}
	listed := func() object {
		t.Helper()
		for _, row := range apptest.MustCommand[[]object](t, h, "receiver", "list") {
			if row["supplier_id"] == s.ID {
				return row
			}
		}
		return nil
	}
	shows("You have no receiver yet.", `"banner calm"`)
	want(t, s.Do(t, http.MethodPut, receiverPath, object{"url": receiver.URL}), 200)
	shows("No delivery has gone to your receiver yet.", `"banner calm"`)
	submit(t, s, nil)
	dead := reaches(t, s, "dead", 1)[0]
	shows("in a row.", "status 404: the receiver takes no POST at this path", `"banner warn"`)
	if row := listed(); row["failing_since"] == nil || !strings.HasPrefix(row["last_error"].(string), "status 404: ") {
		t.Errorf("receiver list: %v", row)
	}
	want(t, s.Do(t, http.MethodPut, receiverPath, object{"url": receiver.URL + "/other"}), 200)
	shows("No delivery has gone to your receiver yet.")
	status.Store(200)
	want(t, s.Do(t, http.MethodPost, deliveriesPath+"/"+dead.ID+"/redeliver", nil), 202)
	reaches(t, s, "delivered", 1)
	shows("All is well: your receiver answers.", `"banner good"`)
	status.Store(503)
	submit(t, s, nil)
	reaches(t, s, "dead", 1)
	shows("in a row.", "status 503", `"banner warn"`)
	status.Store(200)
	submit(t, s, nil)
	reaches(t, s, "delivered", 2)
	shows("Your receiver answers.", `"banner good"`)
	if row := listed(); row["failing_since"] != nil || row["last_error"] != "" {
		t.Errorf("receiver list after a success: %v", row)
	}
}
