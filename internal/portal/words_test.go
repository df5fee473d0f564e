package portal_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// said are the sentences of the packages behind the pages that a page passes on: what errors say, why a call failed,
// and why a request has no estimates.
func said(t *testing.T, files []string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", filepath.FromSlash(file)), nil,
			parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			text := sentence(n)
			if v, ok := n.(*ast.ValueSpec); ok && file == "deliveries/publicerror.go" && len(v.Values) == 1 {
				text = literal(v.Values[0])
			}
			if text != "" {
				found[text] = file
			}
			return true
		})
	}
	var events []struct{ Description string }
	content, err := os.ReadFile(filepath.Join("..", "receivers", "eventtypes.json"))
	if err == nil {
		err = json.Unmarshal(content, &events)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events {
		found[event.Description] = "receivers/eventtypes.json"
	}
	return found
}

// sentence is the text of a node that reaches a page; empty for any other.
func sentence(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		switch called := name(n.Fun); {
		case (called == "errs.New" || called == "errs.At" || called == "errs.InParameter" ||
			called == "errs.InvalidInput") && len(n.Args) > 1:
			if called == "errs.InvalidInput" {
				return literal(n.Args[0])
			}
			return literal(n.Args[1])
		case called == "errors.New" && len(n.Args) == 1:
			return literal(n.Args[0])
		case len(n.Args) == 2 && strings.HasPrefix(literal(n.Args[1]), "must "): // a fault of an address
			return literal(n.Args[1])
		}
	case *ast.CompositeLit: // a pair of publicError's table
		if n.Type == nil && len(n.Elts) == 2 {
			return literal(n.Elts[1])
		}
	case *ast.ReturnStmt: // a fault, or the cause of an answer
		if len(n.Results) == 1 {
			if text := literal(n.Results[0]); strings.HasPrefix(text, "must ") || strings.HasPrefix(text, "the receiver") ||
				strings.HasPrefix(text, "The ") {
				return text
			}
		}
	case *ast.ValueSpec:
		if len(n.Names) == 1 && len(n.Values) == 1 &&
			(strings.HasPrefix(n.Names[0].Name, "failure") || n.Names[0].Name == "wholeCall" ||
				n.Names[0].Name == "interrupted") {
			return literal(n.Values[0])
		}
	}
	return ""
}

func name(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

func literal(e ast.Expr) string {
	if sum, ok := e.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		return literal(sum.X) + literal(sum.Y)
	}
	if call, ok := e.(*ast.CallExpr); ok && name(call.Fun) == "fmt.Sprintf" {
		return literal(call.Args[0])
	}
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		text, _ := strconv.Unquote(l.Value) // it has been parsed
		return text
	}
	return ""
}

// A text that is in English only would be in the middle of a Portuguese page.
func TestWords_what_the_packages_say_on_a_page_has_its_Portuguese(t *testing.T) {
	t.Parallel()
	check(t, "portal", []string{
		"receivers/selfservice.go", "receivers/health.go", "receivers/testcall.go", "sending/sender.go", "sending/ssrf.go",
		"deliveries/delivery.go", "deliveries/sent.go", "deliveries/publicerror.go",
		"materials/selection.go", "materials/state.go", "materials/store.go", "materials/work/estimation.go",
		"materials/receipts.go", "estimates/compute.go", "deliveries/store_recovery.go", "supplierauth/limit.go",
		"portal/http_deliveries.go", "portal/http_receiver.go", "portal/http_requests.go", "portal/http_frame.go",
		"web/http.go", "httpapi/query.go",
		"supplierauth/supplier.go", "supplierauth/receivers.go", "supplierauth/portal.go",
	})
	check(t, "console", []string{
		"estimates/ratecard.go", "apikey/rotate.go", "httpapi/query.go", "console/http_actions.go",
		"console/http_settings.go", "console/http_suppliers.go", "console/http_token.go", "console/views.go", "web/http.go",
	})
}

// check wants the Portuguese of what the files say in the pages of the site.
func check(t *testing.T, site string, files []string) {
	t.Helper()
	portuguese := map[string]string{}
	for _, file := range []string{filepath.Join("..", site, "pages", "pt.json"), filepath.Join("..", "web", "pt.json")} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(content, &portuguese); err != nil {
			t.Fatal(err)
		}
	}
	sentences := said(t, files)
	if len(sentences) < 20 {
		t.Fatalf("only %d sentences were found", len(sentences))
	}
	operators := map[string]bool{ // said by commands, never by a page
		"no key of SECRETS_KEY opens it": true, "SECRETS_KEY is not set: a webhook secret cannot be stored": true,
		"There is no supplier with this id.": true, "The supplier is deactivated.": true,
		"This link was used already, has expired or is incomplete.": true,
		"The session has ended.":                                    true, "must be text without control characters": true,
		"The supplier is not valid.": true, "must be one of ": true, "must not be blank": true,
		"the issuer's certificate was not sent": true, "must be whole seconds, from 1s to %s": true,
		"the rate card has no service in force":                                                                     true,
		"SECRETS_KEY opens %d of %d stored secrets: put back the key that sealed them":                              true,
		"the delivery-estimates webhook did not take the call: its own log, or that of a proxy before it, says why": true,
	}
	for text, file := range sentences {
		if site == "console" && file == "receivers/eventtypes.json" {
			continue
		}
		if portuguese[text] == "" && !operators[text] {
			t.Errorf("%s: %s says %q, which has no Portuguese", site, file, text)
		}
	}
}
