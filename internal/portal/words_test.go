package portal_test

import (
	"cmp"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
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
	case *ast.CompositeLit: // a pair of publicError's table, or why retention ended a delivery
		if of, _ := n.Type.(*ast.Ident); len(n.Elts) == 2 && (n.Type == nil || of != nil && of.Name == "Old") {
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

// literal is a text as it is written, with %s for what is computed in the middle of it; empty for any other expression.
func literal(e ast.Expr) string {
	if sum, ok := e.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		return cmp.Or(literal(sum.X), "%s") + cmp.Or(literal(sum.Y), "%s")
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
	portuguese := map[string]string{}
	content, err := os.ReadFile(filepath.Join("..", "web", "pt.json"))
	if err == nil {
		err = json.Unmarshal(content, &portuguese)
	}
	if err != nil {
		t.Fatal(err)
	}
	sentences := said(t, []string{
		"receivers/selfservice.go", "receivers/health.go", "receivers/testcall.go", "sending/sender.go",
		"sending/dispatcher.go", "sending/ssrf.go", "deliveries/delivery.go", "deliveries/sent.go",
		"deliveries/publicerror.go", "deliveries/admin.go", "deliveries/store_recovery.go", "materials/selection.go",
		"materials/state.go", "materials/store.go", "materials/work/estimation.go", "materials/receipts.go",
		"materials/operator/operator.go", "materials/operator/store.go", "materials/operator/retention.go",
		"estimates/compute.go", "estimates/ratecard.go", "apikey/rotate.go", "scoreboard/settings.go",
		"supplierauth/limit.go", "supplierauth/supplier.go", "supplierauth/receivers.go", "supplierauth/portal.go",
		"httpapi/query.go", "httpapi/list.go", "httpapi/decode.go", "web/http.go", "portal/http_deliveries.go",
		"portal/http_receiver.go", "portal/http_requests.go", "portal/http_frame.go", "portal/http_overview.go",
		"portal/http_session.go", "console/http_actions.go", "console/http_settings.go", "console/http_suppliers.go",
		"console/http_token.go", "console/views.go",
	})
	if len(sentences) < 100 {
		t.Fatalf("only %d sentences were found", len(sentences))
	}
	elsewhere := []string{ // said by commands, or to programs, never by a page
		"no key of SECRETS_KEY opens it", "SECRETS_KEY is not set: a webhook secret cannot be stored",
		"SECRETS_KEY opens %d of %d stored secrets: put back the key that sealed them",
		"This link was used already, has expired or is incomplete.", "The session has ended.", "There is no session.",
		"must be one of %s", "must be whole seconds, from 1s to %s", "There is no request %d%s.",
		"must not be a loopback, private or other special address%s", // the whole sentence has its own
		"the issuer's certificate was not sent", "the rate card has no service in force",
		"this worker has no lease",
		"drain deliveries: results could not be written down; the attempts count as interrupted",
		"The request body must be sent as Content-Type: application/json, in UTF-8.",
		"The request body must not be compressed: Content-Encoding is not supported.",
		"is no parameter of this list, which has %s",
		"is no parameter of this list: its pages are asked for with limit, and cursor from the next_cursor of the last",
	}
	for text, file := range sentences {
		if portuguese[text] == "" && !slices.Contains(elsewhere, text) {
			t.Errorf("%s says %q, which has no Portuguese", file, text)
		}
	}
}
