package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/web"
)

const (
	operatorCookie = "supplyhub_operator" // for the browser's session
	operatorHours  = 12 * time.Hour       // and no longer
	guessPause     = time.Second          // of an address that tried a wrong token
	mostGuessing   = 16                   // calls of an address that wait for their turn
)

// guesses lets one call of an address at a time try a token. After a wrong one the address's next waits: of many that
// it sends at once, one a second is looked at, and those of other addresses are not held up.
type guesses struct {
	mu sync.Mutex
	of map[string]*guesser // addresses that try, or have tried a wrong one within a second
}

// guesser is an address that tries tokens.
type guesser struct {
	turn  chan struct{}
	calls int // that have the turn, or wait
}

// try reports whether the token is the right one. Errors: errs.Exhausted when too many of the address wait.
func (g *guesses) try(ctx context.Context, address, token, right string) (ok bool, err error) {
	from := g.enter(address)
	if from == nil {
		return false, errs.NewExhausted("Too many operator tokens are tried at the moment. Try again.", guessPause)
	}
	select {
	case from.turn <- struct{}{}:
	case <-ctx.Done():
		g.leave(address, from)
		return false, ctx.Err()
	}
	end := func() { <-from.turn; g.leave(address, from) }
	if ok = same(token, right); ok {
		end()
		return true, nil
	}
	time.AfterFunc(guessPause, end)
	return false, nil
}

// enter returns the address's guesser; nil when too many of its calls wait.
func (g *guesses) enter(address string) *guesser {
	g.mu.Lock()
	defer g.mu.Unlock()
	from := g.of[address]
	if from == nil {
		from = &guesser{turn: make(chan struct{}, 1)}
		g.of[address] = from
	}
	if from.calls > mostGuessing {
		return nil
	}
	from.calls++
	return from
}

// leave forgets an address when none of its calls is left.
func (g *guesses) leave(address string, from *guesser) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if from.calls--; from.calls == 0 {
		delete(g.of, address)
	}
}

// same reports whether the texts are equal, in a time that does not depend on the texts.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return hmac.Equal(x[:], y[:])
}

// rightToken tries a token, and warns of a wrong one.
func (s *Service) rightToken(c *gin.Context, token string) (bool, error) {
	ok, err := s.guesses.try(c.Request.Context(), c.ClientIP(), token, s.deps.Token)
	if err == nil && !ok {
		s.deps.Log.WarnContext(c.Request.Context(), "a wrong operator token was tried", "client", c.ClientIP())
	}
	return ok, err
}

// session returns the text that identifies a browser's session; empty for none. Another OPERATOR_TOKEN ends it, on
// every replica.
func (s *Service) session(c *gin.Context) string {
	cookie, err := c.Cookie(operatorCookie)
	if err != nil || cookie == "" || s.deps.Token == "" {
		return ""
	}
	return cookie + " " + s.deps.Token
}

// signedIn reports whether the browser has a session that has not ended.
func (s *Service) signedIn(c *gin.Context) (bool, error) {
	session := s.session(c)
	if session == "" {
		return false, nil
	}
	return s.deps.Suppliers.InConsole(c.Request.Context(), session)
}

// Operator is the middleware of actions: 403 when they are off, 401 with the dialog that asks for the token without it.
// A program sends the token as Bearer; a browser needs the header that only the page's own script sends.
func (s *Service) Operator(c *gin.Context) {
	if s.deps.Token == "" {
		s.answer(c, errs.New(errs.Forbidden, "Actions are off: OPERATOR_TOKEN is not set."), "")
		return
	}
	ctx := c.Request.Context()
	if bearer, presented := supplierauth.BearerToken(c.Request.Header); presented {
		ok, err := s.rightToken(c, bearer)
		switch {
		case err != nil:
			s.answer(c, err, "")
		case !ok:
			s.askToken(c)
		}
		logctx.KnownBy(ctx, "operator token")
		return
	}
	in, err := s.signedIn(c)
	if err != nil {
		s.answer(c, err, "")
		return
	}
	if !in {
		s.askToken(c)
		return
	}
	if err := web.SameOrigin(c.Request); err != nil {
		s.answer(c, err, "")
	}
	logctx.KnownBy(ctx, "console session")
}

func (s *Service) askToken(c *gin.Context) {
	dialog, err := s.site.Fragment(c, "overview", "tokendialog", nil)
	if err != nil {
		_ = c.Error(err)
	}
	s.answer(c, errs.New(errs.Unauthenticated, "Enter the operator token to act."), dialog)
}

// EnterToken handles POST /console/token. A token is tried only when the page itself has sent it.
func (s *Service) EnterToken(c *gin.Context) error {
	if s.deps.Token == "" {
		return errs.New(errs.Forbidden, "Actions are off: OPERATOR_TOKEN is not set.")
	}
	if err := web.SameOrigin(c.Request); err != nil {
		return err
	}
	ok, err := s.rightToken(c, strings.TrimSpace(c.PostForm("operator_token")))
	if err != nil {
		return err
	}
	if !ok {
		return errs.New(errs.Unauthenticated, "This is not the operator token.")
	}
	ctx, cookie := c.Request.Context(), rand.Text()
	logctx.KnownBy(ctx, "operator token")
	if err := s.deps.Suppliers.OpenConsole(ctx, cookie+" "+s.deps.Token, operatorHours); err != nil {
		return err
	}
	setCookie(c, cookie, 0)
	return s.site.Answer(c, http.StatusOK, web.Outcome{
		Message: s.site.Text(c, "You can act now, for 12 hours or until you sign out or close the browser.")})
}

// SignOut handles POST /console/sign-out. The session ends, for a copied cookie too.
func (s *Service) SignOut(c *gin.Context) error {
	if err := web.SameOrigin(c.Request); err != nil {
		return err
	}
	ctx := c.Request.Context()
	in, err := s.signedIn(c)
	if err == nil && in {
		logctx.KnownBy(ctx, "console session")
		err = s.deps.Suppliers.ClosePortal(ctx, s.session(c))
	} else {
		logctx.Unchanged(ctx)
	}
	if err != nil {
		return err
	}
	setCookie(c, "", -1)
	return s.site.Answer(c, http.StatusOK, web.Outcome{Message: s.site.Text(c, "You are signed out."), Address: Base})
}

func setCookie(c *gin.Context, value string, age int) {
	http.SetCookie(c.Writer, &http.Cookie{ //nolint:gosec // the operator listener is plain HTTP; it never leaves its path
		Name: operatorCookie, Value: value, Path: Base, MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: c.Request.TLS != nil,
	})
}
