package httpapi

import (
	"net/http"
	"strings"
)

// docsError explains one status on the page /docs/errors.
type docsError struct {
	Status    int
	Means, Do string
}

// Title returns the status in words.
func (e docsError) Title() string { return http.StatusText(e.Status) }

// Slug returns the name of the section, which a problem's type ends with.
func (e docsError) Slug() string { return problemSlug(e.Status) }

// docsErrors explain every status that a problem document may have, and those without one.
var docsErrors = []docsError{
	{http.StatusBadRequest, "The body or the parameters break rules; errors names every one of them.",
		"change what is named and send it again. Names of members are case-sensitive, integers have no fraction, " +
			"members occur once."},
	{http.StatusUnauthorized, "The access token is missing, expired or not valid; at the token endpoint the API key is, " +
		"at refresh the refresh token.",
		"refresh once and repeat once; if that fails begin a new session with the API key. " +
			"When the key itself is refused ask your operator."},
	{http.StatusForbidden, "The credentials are valid and do not open this: a token lacks the scope, " +
		"a tracker's key has no view.",
		"ask your operator for the scope or the view; the reference names the scope of each route."},
	{http.StatusNotFound, "There is no such resource, or it belongs to another supplier.",
		"compare path and id. Ids are written in plain decimals, paths end without a slash."},
	{http.StatusMethodNotAllowed, "The path takes other methods.", "use one that Allow names."},
	{http.StatusConflict, "The state of the resource does not allow it: other content under the same id, an estimate " +
		"that is selected already or not there yet, a receiver without an address, one that the operator paused.",
		"read the resource and decide again. Repeating the same call does not help."},
	{http.StatusRequestEntityTooLarge, "The body is over 1 MiB, or over 16 KiB at routes without authentication.",
		"send less at once: split the material request."},
	{http.StatusUnsupportedMediaType, "The body is not application/json in UTF-8, or is compressed.",
		"send Content-Type: application/json and no Content-Encoding."},
	{http.StatusUnprocessableEntity, "The content is well-formed and breaks a rule of the business: repeated items, an " +
		"estimate of another request, an estimate past its valid_until.",
		"remove the repeated items; ask for fresh estimates by re-estimate."},
	{http.StatusTooManyRequests,
		"You send more than is allowed: requests a second, test calls a minute, scoreboards a day, or a delivery " +
			"that arrived again within a minute; or a recovery is still under way.",
		"wait Retry-After seconds, then repeat."},
	{http.StatusInternalServerError, "A defect or an unforeseen failure.",
		"wait and repeat with growing pauses; quote X-Request-Id when it stays."},
	{http.StatusServiceUnavailable,
		"Something that the service depends on is unavailable, or too many calls wait at once.",
		"wait Retry-After seconds and repeat, refresh excepted."},
}

// problemSlug returns the status in words as a name: bad-request.
func problemSlug(status int) string {
	return strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "-")
}

// problemType points at the section of /docs/errors that explains the status: a relative reference with its full path
// (RFC 9457, 3.1.1), as the service does not know by which name it is reached.
func problemType(status int) string { return "/docs/errors#" + problemSlug(status) }
