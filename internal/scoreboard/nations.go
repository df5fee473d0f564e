package scoreboard

import (
	"maps"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// A national team is found by its English name or by a code of three letters, FIFA's or ISO's. The names of the regions
// are CLDR's; the tables hold only what football says in another way.

// footballNames returns the Portuguese names that differ from CLDR's, by region; those of the United Kingdom's four
// teams, which are no regions, by FIFA's code.
func footballNames() map[string]string {
	return map[string]string{
		"ENG": "Inglaterra", "NIR": "Irlanda do Norte", "SCO": "Escócia", "WAL": "País de Gales",
		"CD": "RD Congo", "CG": "Congo", "HK": "Hong Kong", "MK": "Macedônia do Norte", "MM": "Mianmar", "MO": "Macau",
		"PF": "Taiti", "PS": "Palestina", "SZ": "Essuatíni", "TW": "Taipé Chinesa",
	}
}

// footballCodes returns FIFA's codes that are not ISO's, older ones too, and their regions.
func footballCodes() map[string]string {
	return map[string]string{
		"ENG": "ENG", "NIR": "NIR", "SCO": "SCO", "WAL": "WAL", "WLS": "WAL",
		"ALG": "DZ", "ANG": "AO", "ARU": "AW", "ASA": "AS", "BAH": "BS", "BAN": "BD", "BAR": "BB", "BER": "BM", "BHU": "BT",
		"BOT": "BW", "BRU": "BN", "BUL": "BG", "CAM": "KH", "CAY": "KY", "CGO": "CG", "CHA": "TD", "CHI": "CL", "CRC": "CR",
		"CRO": "HR", "CTA": "CF", "DEN": "DK", "EQG": "GQ", "FIJ": "FJ", "GAM": "GM", "GER": "DE", "GRE": "GR", "GRN": "GD",
		"GUA": "GT", "GUI": "GN", "HAI": "HT", "HON": "HN", "KOS": "XK", "KSA": "SA", "KUW": "KW", "KVX": "XK", "LES": "LS",
		"LIB": "LB", "MAD": "MG", "MAS": "MY", "MRI": "MU", "MTN": "MR", "MYA": "MM", "NCA": "NI", "NED": "NL", "NEP": "NP",
		"NIG": "NE", "OMA": "OM", "PAR": "PY", "PHI": "PH", "PLE": "PS", "POR": "PT", "PUR": "PR", "RSA": "ZA", "SAM": "WS",
		"SEY": "SC", "SIN": "SG", "SKN": "KN", "SOL": "SB", "SRI": "LK", "SUD": "SD", "SUI": "CH", "TAH": "PF", "TAN": "TZ",
		"TGA": "TO", "TOG": "TG", "TPE": "TW", "TRI": "TT", "UAE": "AE", "URU": "UY", "VAN": "VU", "VIE": "VN", "VIN": "VC",
		"ZAM": "ZM", "ZIM": "ZW",
	}
}

// footballSpellings returns the English names that providers and FIFA use next to CLDR's, by region, as fold has them.
func footballSpellings() map[string][]string {
	return map[string][]string{
		"ENG": {"england"}, "NIR": {"northern ireland"}, "SCO": {"scotland"}, "WAL": {"wales"},
		"AE": {"uae"}, "BA": {"bosnia", "bosnia herzegovina"}, "BN": {"brunei darussalam"},
		"CD": {"dr congo", "congo dr", "democratic republic of congo", "drc", "congo democratic republic"},
		"CF": {"central african rep"}, "CG": {"congo", "republic of congo", "congo republic"}, "CI": {"ivory coast"},
		"CN": {"china pr", "pr china"}, "CV": {"cape verde islands"}, "CZ": {"czech republic"}, "DO": {"dominican rep"},
		"HK": {"hong kong", "hong kong china"}, "IE": {"republic of ireland", "ireland republic", "rep of ireland"},
		"IR": {"ir iran", "islamic republic of iran"}, "KG": {"kyrgyz republic"}, "KP": {"korea dpr", "dpr korea"},
		"KR": {"korea republic", "republic of korea", "korea south"}, "LA": {"lao pdr"}, "MD": {"republic of moldova"},
		"MK": {"north macedonia", "fyr macedonia", "macedonia fyr"}, "MM": {"myanmar", "burma"},
		"MO": {"macau", "macao", "macau china"}, "NL": {"holland"}, "PF": {"tahiti"}, "PS": {"palestine"},
		"RU": {"russian federation"}, "SY": {"syrian arab republic"}, "SZ": {"eswatini"}, "TC": {"turks and caicos"},
		"TL": {"east timor"}, "TR": {"turkiye"}, "TW": {"chinese taipei"}, "US": {"usa", "united states of america"},
		"VI": {"us virgin islands"}, "VN": {"viet nam"},
	}
}

// nations are the Portuguese names by a code in capitals and by a folded name.
type nations struct{ byCode, byName map[string]string }

// knownNations reads CLDR once.
var knownNations = sync.OnceValue(func() nations {
	known := nations{map[string]string{}, map[string]string{}}
	portuguese, inEnglish, inFootball := map[string]string{}, display.Regions(language.English), footballNames()
	inBrazil := display.Regions(language.BrazilianPortuguese)
	for _, region := range language.Supported.Regions() {
		name := inBrazil.Name(region)
		if !region.IsCountry() || region.Canonicalize() != region || region.ISO3() == "ZZZ" || name == "" {
			continue
		}
		if other := inFootball[region.String()]; other != "" {
			name = other
		}
		portuguese[region.String()], known.byCode[region.ISO3()] = name, name
		known.byName[fold(inEnglish.Name(region))] = name
	}
	maps.Copy(portuguese, inFootball) // the United Kingdom's parts are no regions
	for code, region := range footballCodes() {
		known.byCode[code] = portuguese[region]
	}
	for region, spellings := range footballSpellings() {
		for _, spelling := range spellings {
			known.byName[spelling] = portuguese[region]
		}
	}
	for _, name := range portuguese { // a provider may write it so
		known.byName[fold(name)] = name
	}
	return known
})

// find returns the Portuguese name of the nation: its name decides before its codes, as a team of a part of a country
// may have the country's.
func (n nations) find(name string, codes []string) string {
	if found := n.byName[fold(name)]; found != "" {
		return found
	}
	for _, code := range codes {
		if found := n.byCode[strings.ToUpper(strings.TrimSpace(code))]; found != "" {
			return found
		}
	}
	return ""
}

// mark is one mark of a youth, women's or Olympic team at a name's end.
var mark = regexp.MustCompile(`(?i)[\s(,-]+(?:(?:u|under|sub)[\s-]*(?P<age>\d{2})s?|(?P<women>w|women(?:['’]?s)?|` +
	`ladies|female|feminin[oa]|femenin[oa])|(?P<men>men(?:['’]?s)?|masculin[oa])|` +
	`(?P<olympic>ol[yi]mpics?|ol[ií]mpic[oa])|(?P<second>b)|national|team)\)?$`)

// splitMarks returns the name without its marks, and these in Portuguese.
func splitMarks(name string) (bare string, marks []string) {
	for {
		at := mark.FindStringSubmatchIndex(name)
		if at == nil {
			return name, marks
		}
		said := ""
		for i, form := range map[string]string{"age": "Sub-${age}", "women": "Feminino", "men": "Masculino",
			"olympic": "Olímpico", "second": "B"} {
			if group := mark.SubexpIndex(i); at[2*group] >= 0 {
				said = string(mark.ExpandString(nil, form, name, at))
			}
		}
		if said != "" {
			marks = append([]string{said}, marks...)
		}
		name = name[:at[0]]
	}
}

// NationalTeam returns the Portuguese name of a national team, known by its English name or one of the codes, with its
// marks; else the name itself.
func NationalTeam(name string, codes ...string) string {
	name = strings.TrimSpace(name)
	bare, marks := splitMarks(name)
	found := knownNations().find(bare, codes)
	if found == "" {
		return name
	}
	return strings.Join(append([]string{found}, marks...), " ")
}

// fold returns a name without accents, articles and punctuation, in small letters.
func fold(name string) string {
	name = strings.ReplaceAll(name, "&", " and ")
	bare, _, err := transform.String(transform.Chain(norm.NFD, runes.Remove(runes.In(unicode.Mn)), norm.NFC), name)
	if err != nil {
		bare = name
	}
	words := strings.Fields(plain(bare))
	kept := words[:0]
	for _, word := range words {
		switch word {
		case "the":
		case "saint":
			kept = append(kept, "st")
		default:
			kept = append(kept, word)
		}
	}
	return strings.Join(kept, " ")
}
