package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/web"
)

// page is a site with one page that says hello.
func page(hello string) web.Config {
	return web.Config{
		Base: "/site", Title: "Supplier portal",
		Pages: fstest.MapFS{
			"pages/hello.html": {Data: []byte(`{{define "title"}}{{t "Sign in"}}{{end}}{{define "main"}}<h1>{{` + hello +
				`}}</h1>{{end}}`)},
		},
	}
}

func serve(t *testing.T, cfg web.Config) http.Handler {
	t.Helper()
	site, err := web.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	site.Routes(r)
	r.GET("/site", site.SwitchLanguage, httpapi.Handle(func(c *gin.Context) error {
		return site.Render(c, http.StatusOK, "hello", web.Page{Who: "Acme", Data: int64(1234),
			Navigation: []web.Link{{Text: "Overview", Path: ""}}})
	}))
	return r
}

func get(t *testing.T, h http.Handler, target string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestNew_refuses_a_page_that_does_not_parse(t *testing.T) {
	t.Parallel()
	if _, err := web.New(page(`nosuchfunction`)); err == nil {
		t.Error("no error")
	}
}

func TestLanguage_is_what_the_reader_chose_or_else_what_the_browser_asks_for(t *testing.T) {
	t.Parallel()
	h := serve(t, page(`n "%d more item" "%d more items" .Data`))
	for _, c := range []struct{ accept, cookie, want string }{
		{"", "", "1,234 more items"},
		{"pt-BR,pt;q=0.9,en;q=0.8", "", "mais 1.234 itens"},
		{"pt", "", "mais 1.234 itens"},
		{"de, fr;q=0.5", "", "1,234 more items"},
		{"not a language;;;", "", "1,234 more items"},
		{"pt", "supplyhub_language=en", "1,234 more items"},
		{"en", "supplyhub_language=pt", "mais 1.234 itens"},
		{"pt", "supplyhub_language=xx", "mais 1.234 itens"},
	} {
		if body := text(t, get(t, h, "/site", "Accept-Language", c.accept, "Cookie", c.cookie)); !strings.Contains(body,
			c.want) {
			t.Errorf("%q and %q: not %q", c.accept, c.cookie, c.want)
		}
	}
}

func TestLanguage_switch_stays_and_keeps_the_filters(t *testing.T) {
	t.Parallel()
	h := serve(t, page(`t "Sign in"`))
	if body := text(t, get(t, h, "/site?status=dead")); !strings.Contains(body, `href="/site?lang=pt&amp;status=dead"`) {
		t.Errorf("the page has no link to itself in Portuguese:\n%s", body)
	}
	answer := get(t, h, "/site?lang=pt&status=dead")
	if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "/site?status=dead" {
		t.Fatalf("%d to %q", answer.StatusCode, answer.Header.Get("Location"))
	}
	if cookies := answer.Cookies(); len(cookies) != 1 || cookies[0].Value != "pt" || cookies[0].MaxAge < 24*60*60 {
		t.Errorf("cookies %v", cookies)
	}
}

func TestPages_allow_nothing_inline_and_nothing_from_elsewhere(t *testing.T) {
	t.Parallel()
	answer := get(t, serve(t, page(`t "Sign in"`)), "/site")
	policy, body := answer.Header.Get("Content-Security-Policy"), text(t, answer)
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") ||
		strings.Contains(policy, "http") {
		t.Errorf("policy %q", policy)
	}
	for _, inline := range []string{"<style", " style=", "onclick=", "http://", "https://"} {
		if strings.Contains(body, inline) {
			t.Errorf("the page has %q", inline)
		}
	}
	if answer.Header.Get("Cache-Control") != "no-store" {
		t.Error("the page may be stored")
	}
}

func TestAssets_are_served_under_their_checksum_alone(t *testing.T) {
	t.Parallel()
	h := serve(t, page(`t "Sign in"`))
	body := text(t, get(t, h, "/site"))
	for _, name := range []string{"web.css", "web.js", "icon.svg"} {
		end := strings.Index(body, name+`"`)
		if end < 0 {
			t.Fatalf("the page does not name %s", name)
		}
		address := body[strings.LastIndex(body[:end], `"`)+1:end] + name
		answer := get(t, h, address)
		if answer.StatusCode != http.StatusOK || !strings.Contains(answer.Header.Get("Cache-Control"), "immutable") ||
			len(text(t, answer)) == 0 {
			t.Errorf("%s: %d", address, answer.StatusCode)
		}
		if answer := get(t, h, "/site/assets/0000000000000000/"+name); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s under another checksum: %d", name, answer.StatusCode)
		}
	}
}

func TestSameOrigin_passes_the_page_s_own_script_alone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header, site string
		passes       bool
	}{
		{"1", "same-origin", true},
		{"1", "", true}, // not a browser, or an old one
		{"", "same-origin", false},
		{"", "", false},
		{"1", "same-site", false},
		{"1", "cross-site", false},
		{"1", "none", false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/site", nil)
		for name, value := range map[string]string{"X-Page-Request": c.header, "Sec-Fetch-Site": c.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if err := web.SameOrigin(r); (err == nil) != c.passes {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestCharts_escape_their_texts_and_show_the_smallest_part(t *testing.T) {
	t.Parallel()
	bars := string(web.Bars(`<all> "day"`, []string{"good", "bad"},
		[]web.Bar{{Parts: []int64{1_000_000, 1}, Text: "<script>"}}))
	if strings.Contains(bars, "<script>") || strings.Contains(bars, "<all>") {
		t.Errorf("not escaped: %s", bars)
	}
	if !strings.Contains(bars, `class="bad" x="0.0" y="0.0" width="597.0" height="2.0"`) {
		t.Errorf("one in a million is not seen: %s", bars)
	}
	if line := string(web.Line("hour", []float64{0, 1, 2})); !strings.Contains(line,
		`points="0.0,95.0 300.0,48.0 600.0,1.0"`) {
		t.Errorf("line %s", line)
	}
	if none := string(web.Bars("none", []string{"good"}, nil)) +
		string(web.Line("none", nil)); strings.Contains(none, "NaN") {
		t.Errorf("%s", none)
	}
}

func TestTexts_that_were_filled_in_before_are_translated_by_their_form(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ english, want string }{
		{"The rate card has no service \"a.b\".", "A tabela não tem o serviço &#34;a.b&#34;."},
		{"must be 1 to 1,000", "deve ser de 1 a 1,000"},
		{"must be 1 to 200 match ids, numbers, separated by commas",
			"deve ter de 1 a 200 ids de jogos, só números, separados por vírgulas"},
		{"must be 1 to many", "must be 1 to many"},
		{"You do not have the permission webhooks.", "Você não tem a permissão webhooks."},
		{"The request body is over 16 KiB.", "O corpo da requisição passa de 16 KiB."},
		{"There is no delivery msg_a, msg_b.", "Não existe a entrega msg_a, msg_b."},
		{"status 503: no answer in time", "status 503: sem resposta a tempo"},
		{"status 503: no answer within 2s", "status 503: sem resposta em 2s"},
		{"dial tcp 10.0.0.1:80: connect: connection refused", "dial tcp 10.0.0.1:80: connect: connection refused"},
	} {
		got := text(t, get(t, serve(t, page("t `"+c.english+"`")), "/site", "Accept-Language", "pt"))
		if !strings.Contains(got, "<h1>"+c.want+"</h1>") {
			t.Errorf("%q has no %q:\n%s", c.english, c.want, got)
		}
	}
}
