package app

import (
	"net"
	"net/netip"
	"net/url"
)

// sayEncrypted warns of a connection to another host that who is between can read.
func (d *doctor) sayEncrypted(name string, plain bool, todo string) {
	if plain {
		d.say(warning, name, todo, "the connection to another host is not encrypted")
		return
	}
	d.say(well, name, "", "by TLS, or on this machine")
}

// sayPublic warns where keys, tokens and links into the portal may travel unencrypted.
func (d *doctor) sayPublic() {
	const name, todo = "public address", "put TLS before the api, and set PUBLIC_URL to its https address"
	host, _, _ := net.SplitHostPort(d.cfg.HTTPAddr) // its form was checked
	public, err := url.Parse(d.cfg.PublicURL)
	switch {
	case d.cfg.PublicURL == "" && local(host):
		d.say(well, name, "", "the api listens on this machine alone")
	case d.cfg.PublicURL == "":
		d.say(warning, name, todo,
			"PUBLIC_URL is not set: links into the portal are http, to the name that a call came in at")
	case err != nil || public.Scheme != "https" && !local(public.Hostname()):
		d.say(warning, name, todo, "PUBLIC_URL is http: keys, tokens and links into the portal can be read on their way")
	default:
		d.say(well, name, "", "%s", d.cfg.PublicURL)
	}
}

// sayProxy warns that webhooks take no proxy: where a call ends has to be known before it is made.
func (d *doctor) sayProxy(environ map[string]string) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		if environ[name] != "" {
			d.say(warning, "proxy",
				"let the workers reach receivers directly; WEBHOOK_DENY_NETWORKS keeps them out of your networks",
				"%s is set: the scoreboard's providers and traces are called through it, webhooks, PostgreSQL and NATS are not",
				name)
			return
		}
	}
}

func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
