package sending

import (
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/supplyhub/supplyhub/internal/deliveries"
)

// A supplier chooses where its calls go, so the calls must not reach what only this machine can: the operator's
// network, the metadata of a cloud. The address is judged where the connection is made, and not where the URL is
// stored: a name may resolve to another address each time. No proxy is used, behind which that address would be hidden.

// special are the networks that are not the public Internet, by the special-purpose registries of IANA. IPv6 is the
// other way round: public is 2000::/3 without these.
var special = Networks{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("10.0.0.0/8"),      // private
	netip.MustParsePrefix("100.64.0.0/10"),   // shared by carriers
	netip.MustParsePrefix("127.0.0.0/8"),     // loopback
	netip.MustParsePrefix("169.254.0.0/16"),  // link-local, metadata of clouds
	netip.MustParsePrefix("172.16.0.0/12"),   // private
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("192.31.196.0/24"), // AS112
	netip.MustParsePrefix("192.52.193.0/24"), // AMT
	netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays
	netip.MustParsePrefix("192.168.0.0/16"),  // private
	netip.MustParsePrefix("192.175.48.0/24"), // AS112
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("224.0.0.0/4"),     // multicast
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, broadcast

	netip.MustParsePrefix("2001::/23"),         // protocol assignments, Teredo among them
	netip.MustParsePrefix("2001:db8::/32"),     // documentation
	netip.MustParsePrefix("2002::/16"),         // 6to4: carries any IPv4 address
	netip.MustParsePrefix("2620:4f:8000::/48"), // AS112
	netip.MustParsePrefix("3fff::/20"),         // documentation
}

var publicIPv6 = netip.MustParsePrefix("2000::/3")

// isPublic reports whether a receiver may have the address. An IPv4 address inside an IPv6 one is judged as what it is.
func isPublic(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	if !address.IsValid() || address.Is6() && !publicIPv6.Contains(address) {
		return false
	}
	return !special.contains(address)
}

// Networks are some that no receiver may be in, such as the operator's own with public addresses,
// WEBHOOK_DENY_NETWORKS.
type Networks []netip.Prefix

func (n Networks) contains(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	return slices.ContainsFunc(n, func(p netip.Prefix) bool { return p.Contains(address) })
}

// guardedDialer refuses addresses that are not public, or denied, at the last moment, when they are resolved: a name
// that resolves to another address the second time gains nothing.
func guardedDialer(allowPrivate bool, deny Networks) *net.Dialer {
	dialer := &net.Dialer{Timeout: connectTimeout}
	dialer.Control = func(_, address string, _ syscall.RawConn) error {
		resolved, err := netip.ParseAddrPort(address)
		if err != nil || !allowPrivate && !isPublic(resolved.Addr()) || deny.contains(resolved.Addr()) {
			return deliveries.ErrSpecialAddress
		}
		return nil
	}
	return dialer
}
