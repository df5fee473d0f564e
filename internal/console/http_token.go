package console

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/web"
)

const (
	operatorCookie = "supplyhub_operator" // for the browser's session
	operatorHours  = 12 * time.Hour       // and no longer
	guessPause     = time.Second          // after a wrong token, for all callers
	mostGuessing   = 16                   // callers that wait for their turn
)

// guesses lets one caller at a time try a token. After a wrong one the next waits: of many that are sent at once, one a
// second is looked at. The cookie of who has signed in is not tried here.
type guesses struct {
	turn    chan struct{}
	waiting chan struct{}
}

func newGuesses() guesses {
	return guesses{turn: make(chan struct{}, 1), waiting: make(chan struct{}, mostGuessing)}
}

// try reports whether the token is the right one. Errors: errs.Exhausted when too many wait.
func (g guesses) try(ctx context.Context, token, right string) (ok bool, err error) {
	select {
	case g.waiting <- struct{}{}:
		defer func() { <-g.waiting }()
	default:
		e := errs.New(errs.Exhausted, "Too many operator tokens are tried at the moment. Try again.")
		e.RetryAfter = guessPause
		return false, e
	}
	select {
	case g.turn <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if ok = same(token, right); ok {
		<-g.turn
		return true, nil
	}
	time.AfterFunc(guessPause, func() { <-g.turn })
	return false, nil
}

// same reports whether the texts are equal, in a time that does not depend on the texts.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return hmac.Equal(x[:], y[:])
}

// rightToken tries a token, and warns of a wrong one.
func (s *Service) rightToken(c *gin.Context, token string) (bool, error) {
	ok, err := s.guesses.try(c.Request.Context(), token, s.deps.Token)
	if err == nil && !ok {
		s.deps.Log.WarnContext(c.Request.Context(), "a wrong operator token was tried", "client", c.ClientIP())
	}
	return ok, err
}

// session returns what a browser keeps instead of the token until the given second. Another token ends it, on every
// replica.
func (s *Service) session(until int64) string {
	end := strconv.FormatInt(until, 10)
	mac := hmac.New(sha256.New, []byte(s.deps.Token))
	mac.Write([]byte("supplyhub console session until " + end))
	return end + "." + hex.EncodeToString(mac.Sum(nil))
}

// signedIn reports whether the browser has a session that has not ended.
func (s *Service) signedIn(c *gin.Context) bool {
	cookie, err := c.Cookie(operatorCookie)
	if err != nil || s.deps.Token == "" {
		return false
	}
	end, _, _ := strings.Cut(cookie, ".")
	until, err := strconv.ParseInt(end, 10, 64)
	return err == nil && same(cookie, s.session(until)) && s.deps.Now().Unix() < until
}

// Operator is the middleware of actions: 403 when they are off, 401 with the dialog that asks for the token without it.
// A program sends the token as Bearer; a browser needs the header that only the page's own script sends.
func (s *Service) Operator(c *gin.Context) {
	if s.deps.Token == "" {
		s.answer(c, errs.New(errs.Forbidden, "Actions are off: OPERATOR_TOKEN is not set."), "")
		return
	}
	ctx := c.Request.Context()
	if bearer, found := strings.CutPrefix(c.GetHeader("Authorization"), "Bearer "); found {
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
	if !s.signedIn(c) {
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

// EnterToken handles POST /console/token.
func (s *Service) EnterToken(c *gin.Context) error {
	if s.deps.Token == "" {
		return errs.New(errs.Forbidden, "Actions are off: OPERATOR_TOKEN is not set.")
	}
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, formBytes)
	ok, err := s.rightToken(c, strings.TrimSpace(c.PostForm("operator_token")))
	if err != nil {
		return err
	}
	if !ok {
		return errs.New(errs.Unauthenticated, "This is not the operator token.")
	}
	if err := web.SameOrigin(c.Request); err != nil {
		return err
	}
	logctx.KnownBy(c.Request.Context(), "operator token")
	setCookie(c, s.session(s.deps.Now().Add(operatorHours).Unix()), 0)
	s.site.Answer(c, http.StatusOK, web.Outcome{
		Message: s.site.Text(c, "You can act now, for 12 hours or until you sign out or close the browser.")})
	return nil
}

// SignOut handles POST /console/sign-out.
func (s *Service) SignOut(c *gin.Context) error {
	if err := web.SameOrigin(c.Request); err != nil {
		return err
	}
	logctx.KnownBy(c.Request.Context(), "console session")
	setCookie(c, "", -1)
	s.site.Answer(c, http.StatusOK, web.Outcome{Message: s.site.Text(c, "You are signed out."), Address: Base})
	return nil
}

func setCookie(c *gin.Context, value string, age int) {
	http.SetCookie(c.Writer, &http.Cookie{ //nolint:gosec // the operator listener is plain HTTP; it never leaves its path
		Name: operatorCookie, Value: value, Path: Base, MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: c.Request.TLS != nil,
	})
}
