package supplierauth

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// The rules of a supplier: names, scopes, lifetimes, and which address its receiver may have. Private addresses are
// refused here by their text, so that a mistake is seen at once; a name's addresses are checked when a connection is
// made.

// Lifetimes of a supplier's tokens: a new supplier's, and the longest that can be set.
const (
	DefaultAccessTTL  = 15 * time.Minute
	DefaultRefreshTTL = 14 * 24 * time.Hour
	maxAccessTTL      = 24 * time.Hour
	maxRefreshTTL     = 365 * 24 * time.Hour
)

const (
	maxName        = 255    // characters
	maxWebhookURL  = 2048   // bytes
	maxConcurrency = 10_000 // calls at once
)

// scopes returns all scopes, in the order of storage and display.
func scopes() []string {
	return []string{caller.ScopeMaterialRequests, caller.ScopeProducts, caller.ScopeWebhooks, caller.ScopeEstimatesWrite,
		caller.ScopeOrdersRead}
}

// DefaultScopes returns what every new supplier may do; the others are granted explicitly.
func DefaultScopes() []string {
	return []string{caller.ScopeMaterialRequests, caller.ScopeProducts, caller.ScopeWebhooks}
}

// Supplier is an external party as the operator sees it. It holds no secret.
type Supplier struct {
	ID         string // sup_ and 16 lower-case letters and digits
	Name       string
	WebhookURL string // of its own receiver, as caller.CallURL takes it; empty: it has none
	AccessTTL  time.Duration
	RefreshTTL time.Duration
	Scopes     []string
	// ReceiverConcurrency is how many calls its receiver takes at once; nil: RECEIVER_CONCURRENCY.
	ReceiverConcurrency *int
	Active              bool
	CreatedAt           time.Time
	UpdatedAt           time.Time
}

// MarshalJSON returns the stable form that commands print; lifetimes are Go durations such as 15m0s.
func (s Supplier) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID         string    `json:"id"`
		Name       string    `json:"name"`
		WebhookURL string    `json:"webhook_url"`
		AccessTTL  string    `json:"access_ttl"`
		RefreshTTL string    `json:"refresh_ttl"`
		Scopes     []string  `json:"scopes"`
		Concurrent *int      `json:"receiver_concurrency"`
		Active     bool      `json:"active"`
		CreatedAt  time.Time `json:"created_at"`
		UpdatedAt  time.Time `json:"updated_at"`
	}{
		s.ID, s.Name, s.ShownURL(), s.AccessTTL.String(), s.RefreshTTL.String(), append([]string{}, s.Scopes...),
		s.ReceiverConcurrency, s.Active, s.CreatedAt, s.UpdatedAt,
	})
}

// ShownURL returns the address of its receiver as others than itself may see it.
func (s Supplier) ShownURL() string { return caller.ShownURL(s.WebhookURL) }

// SupplierPatch changes the fields that are not nil.
type SupplierPatch struct {
	Name       *string
	WebhookURL *string // empty removes the receiver
	AccessTTL  *time.Duration
	RefreshTTL *time.Duration
	Scopes     *[]string
	// ReceiverConcurrency is 1 to 10,000.
	ReceiverConcurrency *int
}

// whole returns what the operator decides about a new supplier as a change of every field.
func whole(s Supplier) SupplierPatch {
	return SupplierPatch{Name: &s.Name, WebhookURL: &s.WebhookURL, AccessTTL: &s.AccessTTL, RefreshTTL: &s.RefreshTTL,
		Scopes: &s.Scopes, ReceiverConcurrency: s.ReceiverConcurrency}
}

// apply changes s. The error names every violation.
func (p SupplierPatch) apply(s *Supplier, allowPrivate bool) error {
	var violations []errs.Violation
	change(&violations, "/name", &s.Name, p.Name, nameFault)
	if p.WebhookURL != nil {
		s.WebhookURL = *p.WebhookURL
		violations = append(violations, violationsAt("/webhook_url", webhookURLFaults(s.WebhookURL, allowPrivate))...)
	}
	change(&violations, "/access_ttl", &s.AccessTTL, p.AccessTTL,
		func(ttl time.Duration) string { return ttlFault(ttl, maxAccessTTL) })
	change(&violations, "/refresh_ttl", &s.RefreshTTL, p.RefreshTTL,
		func(ttl time.Duration) string { return ttlFault(ttl, maxRefreshTTL) })
	if p.Scopes != nil {
		for i, scope := range *p.Scopes {
			if !slices.Contains(scopes(), scope) {
				violations = append(violations,
					errs.At("/scopes/"+strconv.Itoa(i), "must be one of "+strings.Join(scopes(), ", ")))
			}
		}
		s.Scopes = slices.DeleteFunc(scopes(), func(scope string) bool { return !slices.Contains(*p.Scopes, scope) })
	}
	if n := p.ReceiverConcurrency; n != nil {
		change(&violations, "/receiver_concurrency", &s.ReceiverConcurrency, &n, concurrencyFault)
	}
	if len(violations) > 0 {
		return errs.InvalidInput("The supplier is not valid.", violations...)
	}
	if p.WebhookURL != nil {
		s.WebhookURL = storedURL(s.WebhookURL)
	}
	return nil
}

// change sets a field to a value that is given, and notes what is wrong with it.
func change[T any](violations *[]errs.Violation, pointer string, field, value *T, fault func(T) string) {
	if value == nil {
		return
	}
	if detail := fault(*value); detail != "" {
		*violations = append(*violations, errs.At(pointer, detail))
	}
	*field = *value
}

// violationsAt returns all faults of one field.
func violationsAt(pointer string, faults []string) []errs.Violation {
	return lists.Of(faults, func(fault string) errs.Violation { return errs.At(pointer, fault) })
}

func concurrencyFault(n *int) string {
	if *n < 1 || *n > maxConcurrency {
		return fmt.Sprintf("must be 1 to %d", maxConcurrency)
	}
	return ""
}

// nameFault returns what is wrong with a name; empty: nothing is.
func nameFault(name string) string {
	switch {
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "must be text without control characters"
	case strings.TrimSpace(name) == "":
		return "must not be blank"
	case utf8.RuneCountInString(name) > maxName:
		return fmt.Sprintf("must have at most %d characters", maxName)
	default:
		return ""
	}
}

// ttlFault returns what is wrong with a lifetime; empty: nothing is.
func ttlFault(ttl, longest time.Duration) string {
	if ttl < time.Second || ttl > longest || ttl%time.Second != 0 {
		return fmt.Sprintf("must be whole seconds, from 1s to %s", longest)
	}
	return ""
}

const unlessAllowed = ", unless WEBHOOK_ALLOW_PRIVATE=true is set where this is checked and for the service"

// webhookURLFaults returns all that is wrong with an address. It never repeats a password that it may hold.
func webhookURLFaults(text string, allowPrivate bool) (faults []string) {
	if text == "" {
		return nil
	}
	is := func(wrong bool, fault string) {
		if wrong {
			faults = append(faults, fault)
		}
	}
	u, err := url.Parse(text)
	scheme, _, _ := strings.Cut(strings.ToLower(text), "://")
	is(scheme != "http" && scheme != "https", "must start with http:// or https://")
	if faults != nil { // how the rest is to be read is not known
		return faults
	}
	if err != nil || len(text) > maxWebhookURL || !utf8.ValidString(text) {
		return []string{fmt.Sprintf("must be a valid address of at most %d bytes", maxWebhookURL)}
	}
	is(u.User != nil, "must not hold a user or password")
	is(strings.Contains(text, "#"), "must not have a fragment")
	is(u.Hostname() == "", "must name a host")
	is(u.Hostname() != "" && asciiHost(u) == "", "must name a host that the DNS can have")
	is(u.Hostname() != "" && !validPort(u), "must have a port from 1 to 65535, or none")
	is(!allowPrivate && literalPrivate((&url.URL{Host: asciiHost(u)}).Hostname()),
		"must not be a loopback, private or other special address"+unlessAllowed)
	return append(faults, callFaults(plainURL(text))...)
}

// plainURL returns an address without its user and fragment.
func plainURL(text string) string {
	text, _, _ = strings.Cut(text, "#")
	scheme, rest, _ := strings.Cut(text, "://")
	host, _, _ := strings.Cut(rest, "/")
	host, _, _ = strings.Cut(host, "?")
	return scheme + "://" + rest[strings.LastIndex(host, "@")+1:]
}

// wholeCall says that an address is one of a call, and which was meant.
const wholeCall = "must not end in /delivery-estimates, which each call has behind it: set %s"

// callFaults refuses an address whose calls would not go where they were meant to.
func callFaults(text string) (faults []string) {
	if strings.ContainsAny(strings.ReplaceAll(text, caller.RequestPlace, ""), "{}") {
		faults = append(faults, "must have no braces but those of {id}, in whose place a request's id comes")
	}
	if strings.Contains(text, caller.RequestPlace) {
		return faults
	}
	if strings.Contains(text, "?") {
		return append(faults, "must have {id} where a request's id belongs when it has a query, such as ?request={id}: "+
			"it is called exactly as it is written then")
	}
	above, ends := strings.CutSuffix(strings.TrimRight(text, "/"), "/delivery-estimates")
	if !ends {
		return faults
	}
	meant := text + "?request=" + caller.RequestPlace
	if parts := strings.Split(above, "/"); len(parts) > 5 && slices.Equal(parts[len(parts)-3:len(parts)-1],
		[]string{"api", "material-requests"}) {
		meant = strings.Join(parts[:len(parts)-3], "/")
	}
	return append(faults, fmt.Sprintf(wholeCall, meant))
}

// storedURL returns a valid address with a host in ASCII: a URI is (RFC 3986), whatever browsers show. One that is
// called as it is written is not changed but for that; any other one has no trailing slash.
func storedURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return text
	}
	u.Host = asciiHost(u)
	if !strings.Contains(text, caller.RequestPlace) {
		return strings.TrimRight(u.String(), "/")
	}
	scheme, rest, _ := strings.Cut(text, "://")
	return scheme + "://" + u.Host + rest[strings.IndexAny(rest, "/?"):]
}

// asciiHost returns the host, with its port, as it is called: an international name as net/http encodes it (RFC 5891),
// any other one as it is; "" when there is no such name.
func asciiHost(u *url.URL) string {
	if !strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII }) {
		return u.Host
	}
	host, err := idna.Lookup.ToASCII(u.Hostname())
	if err != nil {
		return ""
	}
	return host + strings.TrimPrefix(u.Host, u.Hostname())
}

// validPort reports whether the address names no port, or one from 1 to 65535.
func validPort(u *url.URL) bool {
	if strings.HasSuffix(u.Host, ":") {
		return false
	}
	if u.Port() == "" {
		return true
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}

// literalPrivate reports whether the host is literally a private address, an evident mistake. The sender protects the
// network: it checks the address that a connection is really made to.
func literalPrivate(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	zoned := ip.Zone() != ""
	ip = ip.WithZone("").Unmap()
	shared := netip.MustParsePrefix("100.64.0.0/10")
	return zoned || !ip.IsGlobalUnicast() || ip.IsPrivate() || shared.Contains(ip)
}
