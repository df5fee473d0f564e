package httpapi

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/supplyhub/supplyhub/internal/errs"
)

const (
	maxBody       = 1 << 20
	strangerBody  = 16 << 10 // bytes of a body whose sender is not known
	maxViolations = 1000     // a hostile body of 1 MiB would otherwise be answered with a hundred
)

// EnoughViolations is how many a validate may stop at: as many are listed, whatever the decoder has named already.
const EnoughViolations = 2 * maxViolations

// ReadJSON returns the bytes of a JSON body. Errors: errs.Unsupported for another media type or an encoded body,
// errs.TooLarge over 1 MiB, or 16 KiB when its sender is not Known, errs.Invalid when the body does not arrive whole,
// errs.Unavailable when there is no memory for it. No Content-Type is read as JSON.
func ReadJSON(c *gin.Context) ([]byte, error) {
	if err := acceptable(c.Request.Header); err != nil {
		return nil, err
	}
	return readBody(c, heldBy(c).limit())
}

// PeekBody returns the raw body of a request whose sender can be known by its signature only: to 1 MiB when the
// signature may be right, by what is known without the body. ReadJSON gives it again. Errors: ReadJSON's.
func PeekBody(c *gin.Context, mayBeRight bool) ([]byte, error) {
	limit := int64(strangerBody)
	if mayBeRight {
		limit = maxBody
	}
	raw, err := readBody(c, limit)
	if err != nil {
		return nil, err
	}
	heldBy(c).peeked = raw
	return raw, nil
}

// Proper returns what is wrong with a request whatever its route takes, once its caller is known: a query string that
// does not parse, errs.Invalid, or a body over what ReadJSON reads of this sender, errs.TooLarge. A body whose length
// is not announced is read for that; its request has its length then.
func Proper(c *gin.Context) error {
	if _, err := Query(c); err != nil {
		return err
	}
	if c.Request.ContentLength >= 0 {
		return announced(c, heldBy(c).limit())
	}
	raw, err := PeekBody(c, heldBy(c).caller != "")
	c.Request.ContentLength = int64(len(raw))
	return err
}

// announced refuses a body by the length that was announced.
func announced(c *gin.Context, limit int64) error {
	if c.Request.ContentLength <= limit {
		return nil
	}
	dropBody(c)
	return tooLarge(c, limit)
}

// ReadForm reads the body of a page's form, for gin's PostForm. Errors: ReadJSON's.
func ReadForm(c *gin.Context, limit int64) error {
	c.Request.PostForm, c.Request.MultipartForm = url.Values{}, &multipart.Form{} // gin then reads no body
	if c.ContentType() != "application/x-www-form-urlencoded" {
		return nil
	}
	raw, err := readBody(c, limit)
	if err == nil {
		c.Request.PostForm, err = url.ParseQuery(string(raw))
	}
	if err != nil && errs.KindOf(err) == errs.Internal && c.Request.Context().Err() == nil {
		return errs.Wrap(errs.Invalid, "The form could not be read.", err)
	}
	return err
}

// readBody reads what there is memory for.
func readBody(c *gin.Context, limit int64) ([]byte, error) {
	if c.Request.Body == nil {
		return nil, nil
	}
	if err := announced(c, limit); err != nil {
		return nil, err
	}
	if peeked := heldBy(c).peeked; peeked != nil {
		return peeked, nil
	}
	raw, err := readAll(c, limit)
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		heldBy(c).read = true
		return raw, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		heldBy(c).late = true
		return nil, errs.Wrap(errs.Invalid, "The request body did not arrive in time.", err)
	case c.Request.Context().Err() != nil:
		return nil, c.Request.Context().Err()
	case large:
		return nil, tooLarge(c, limit)
	case errs.KindOf(err) == errs.Unavailable:
		return nil, err
	default:
		return nil, errs.Wrap(errs.Invalid, "The request body did not arrive whole.", err)
	}
}

// tooLarge ends the connection too: the rest of the body would be read as the next request.
func tooLarge(c *gin.Context, limit int64) error {
	c.Header("Connection", "close")
	size := "1 MiB"
	if limit < maxBody {
		size = strconv.FormatInt(limit>>10, 10) + " KiB"
	}
	return errs.New(errs.TooLarge, "The request body is over "+size+".")
}

// readAll reads a body into memory that is granted before. The beginning of one whose length was not announced needs
// none; a longer one is granted as much as any may need.
func readAll(c *gin.Context, limit int64) ([]byte, error) {
	length, h := c.Request.ContentLength, heldBy(c)
	times := int64(1) // a stranger's body is decoded into at most its own size
	if h.caller != "" {
		times = bodyTimes
	}
	body := http.MaxBytesReader(c.Writer, c.Request.Body, limit)
	if length >= 0 {
		if err := h.hold(c, times*length); err != nil {
			return nil, err
		}
		raw := make([]byte, length)
		_, err := io.ReadFull(body, raw)
		return raw, err
	}
	first := make([]byte, usualBytes/bodyTimes)
	n, err := io.ReadFull(body, first)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return first[:n], nil
	}
	if err == nil {
		err = h.hold(c, times*limit)
	}
	if err != nil {
		return nil, err
	}
	rest, err := io.ReadAll(body)
	return slices.Concat(first, rest), err
}

func acceptable(header http.Header) error {
	for _, encodings := range header["Content-Encoding"] {
		for encoding := range strings.SplitSeq(encodings, ",") {
			if e := strings.TrimSpace(encoding); e != "" && !strings.EqualFold(e, "identity") {
				return errs.New(errs.Unsupported, "The request body must not be compressed: Content-Encoding is not supported.")
			}
		}
	}
	types := header["Content-Type"]
	if len(types) == 0 || len(types) == 1 && types[0] == "" {
		return nil
	}
	mediaType, parameters, err := mime.ParseMediaType(types[0])
	charset := parameters["charset"]
	if len(types) > 1 || err != nil || mediaType != "application/json" ||
		!slices.Contains([]string{"", "utf-8", "utf8"}, strings.ToLower(charset)) {
		return errs.New(errs.Unsupported, "The request body must be sent as Content-Type: application/json, in UTF-8.")
	}
	return nil
}

// DecodeJSON reads, decodes and validates a body. Its errs.Invalid lists every violation once: those of validate at a
// place that is already known to have the wrong type are left out. validate is not called for a text that is not JSON.
// A query string that does not parse is errs.Invalid too.
func DecodeJSON[T any](c *gin.Context, validate func(*T) []errs.Violation) (*T, error) {
	if _, err := Query(c); err != nil {
		return nil, err
	}
	raw, err := ReadJSON(c)
	if err != nil {
		return nil, err
	}
	if h, cost := heldBy(c), bodyCost(raw); cost > h.size {
		if err := h.hold(c, cost); err != nil {
			return nil, err
		}
	}
	v, violations := Decode[T](raw)
	if v != nil && validate != nil {
		violations = merge(violations, validate(v))
	}
	if len(violations) == 0 {
		return v, nil
	}
	detail := "The request body is not valid."
	if len(violations) >= maxViolations { // the decoder stops at so many
		detail = "The request body is not valid; only the first 1000 violations are listed."
	}
	return nil, errs.InvalidInput(detail, firstViolations(violations)...)
}

// DecodeOwn decodes what a process of this service wrote: nothing about it is checked but that it is JSON.
func DecodeOwn[T any](raw []byte) (v T, err error) {
	err = json.Unmarshal(raw, &v, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return v, err
}

// firstViolations returns those that an answer lists.
func firstViolations(all []errs.Violation) []errs.Violation {
	return all[:min(len(all), maxViolations)]
}

// merge adds the rules' violations to the decoder's, without those at or below a place that the decoder named.
func merge(decoder, rules []errs.Violation) []errs.Violation {
	if len(decoder) == 0 {
		return rules
	}
	named := make(map[string]bool, len(decoder))
	for _, v := range decoder {
		named[*v.Pointer] = true
	}
	return append(decoder, slices.DeleteFunc(slices.Clone(rules), func(v errs.Violation) bool {
		return v.Pointer != nil && isNamed(named, *v.Pointer)
	})...)
}

func isNamed(named map[string]bool, pointer string) bool {
	for !named[pointer] {
		slash := strings.LastIndexByte(pointer, '/')
		if slash < 0 {
			return false
		}
		pointer = pointer[:slash]
	}
	return true
}
