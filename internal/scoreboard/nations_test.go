package scoreboard_test

import (
	"strings"
	"testing"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"github.com/supplyhub/supplyhub/internal/scoreboard"
)

// members are the 211 associations of FIFA: its code, the region of ISO 3166 (the code again where there is none), its
// name in English as FIFA writes it.
const members = `
AFG AF Afghanistan|AUS AU Australia|BHR BH Bahrain|BAN BD Bangladesh|BHU BT Bhutan|BRU BN Brunei Darussalam
CAM KH Cambodia|CHN CN China PR|TPE TW Chinese Taipei|GUM GU Guam|HKG HK Hong Kong|IND IN India|IDN ID Indonesia
IRN IR IR Iran|IRQ IQ Iraq|JPN JP Japan|JOR JO Jordan|PRK KP Korea DPR|KOR KR Korea Republic|KUW KW Kuwait
KGZ KG Kyrgyz Republic|LAO LA Laos|LBN LB Lebanon|MAC MO Macau|MAS MY Malaysia|MDV MV Maldives|MNG MN Mongolia
MYA MM Myanmar|NEP NP Nepal|OMA OM Oman|PAK PK Pakistan|PLE PS Palestine|PHI PH Philippines|QAT QA Qatar
KSA SA Saudi Arabia|SGP SG Singapore|SRI LK Sri Lanka|SYR SY Syria|TJK TJ Tajikistan|THA TH Thailand
TLS TL Timor-Leste|TKM TM Turkmenistan|UAE AE United Arab Emirates|UZB UZ Uzbekistan|VIE VN Vietnam|YEM YE Yemen
ALG DZ Algeria|ANG AO Angola|BEN BJ Benin|BOT BW Botswana|BFA BF Burkina Faso|BDI BI Burundi|CMR CM Cameroon
CPV CV Cabo Verde|CTA CF Central African Republic|CHA TD Chad|COM KM Comoros|CGO CG Congo|COD CD Congo DR
CIV CI Côte d'Ivoire|DJI DJ Djibouti|EGY EG Egypt|EQG GQ Equatorial Guinea|ERI ER Eritrea|SWZ SZ Eswatini
ETH ET Ethiopia|GAB GA Gabon|GAM GM The Gambia|GHA GH Ghana|GUI GN Guinea|GNB GW Guinea-Bissau|KEN KE Kenya
LES LS Lesotho|LBR LR Liberia|LBY LY Libya|MAD MG Madagascar|MWI MW Malawi|MLI ML Mali|MTN MR Mauritania
MRI MU Mauritius|MAR MA Morocco|MOZ MZ Mozambique|NAM NA Namibia|NIG NE Niger|NGA NG Nigeria|RWA RW Rwanda
STP ST São Tomé and Príncipe|SEN SN Senegal|SEY SC Seychelles|SLE SL Sierra Leone|SOM SO Somalia|RSA ZA South Africa
SSD SS South Sudan|SDN SD Sudan|TAN TZ Tanzania|TOG TG Togo|TUN TN Tunisia|UGA UG Uganda|ZAM ZM Zambia|ZIM ZW Zimbabwe
AIA AI Anguilla|ATG AG Antigua and Barbuda|ARU AW Aruba|BAH BS Bahamas|BRB BB Barbados|BLZ BZ Belize|BER BM Bermuda
VGB VG British Virgin Islands|CAN CA Canada|CAY KY Cayman Islands|CRC CR Costa Rica|CUB CU Cuba|CUW CW Curaçao
DMA DM Dominica|DOM DO Dominican Republic|SLV SV El Salvador|GRN GD Grenada|GUA GT Guatemala|GUY GY Guyana
HAI HT Haiti|HON HN Honduras|JAM JM Jamaica|MEX MX Mexico|MSR MS Montserrat|NCA NI Nicaragua|PAN PA Panama
PUR PR Puerto Rico|SKN KN St Kitts and Nevis|LCA LC St Lucia|VIN VC St Vincent and the Grenadines|SUR SR Suriname
TCA TC Turks and Caicos Islands|TRI TT Trinidad and Tobago|USA US USA|VIR VI US Virgin Islands
ARG AR Argentina|BOL BO Bolivia|BRA BR Brazil|CHI CL Chile|COL CO Colombia|ECU EC Ecuador|PAR PY Paraguay
PER PE Peru|URU UY Uruguay|VEN VE Venezuela
ASA AS American Samoa|COK CK Cook Islands|FIJ FJ Fiji|NCL NC New Caledonia|NZL NZ New Zealand
PNG PG Papua New Guinea|SAM WS Samoa|SOL SB Solomon Islands|TAH PF Tahiti|TGA TO Tonga|VAN VU Vanuatu
ALB AL Albania|AND AD Andorra|ARM AM Armenia|AUT AT Austria|AZE AZ Azerbaijan|BLR BY Belarus|BEL BE Belgium
BIH BA Bosnia and Herzegovina|BUL BG Bulgaria|CRO HR Croatia|CYP CY Cyprus|CZE CZ Czechia|DEN DK Denmark
ENG ENG England|EST EE Estonia|FRO FO Faroe Islands|FIN FI Finland|FRA FR France|GEO GE Georgia|GER DE Germany
GIB GI Gibraltar|GRE GR Greece|HUN HU Hungary|ISL IS Iceland|ISR IL Israel|ITA IT Italy|KAZ KZ Kazakhstan
KVX XK Kosovo|LVA LV Latvia|LIE LI Liechtenstein|LTU LT Lithuania|LUX LU Luxembourg|MLT MT Malta|MDA MD Moldova
MNE ME Montenegro|NED NL Netherlands|MKD MK North Macedonia|NIR NIR Northern Ireland|NOR NO Norway|POL PL Poland
POR PT Portugal|IRL IE Republic of Ireland|ROU RO Romania|RUS RU Russia|SMR SM San Marino|SCO SCO Scotland|SRB RS Serbia
SVK SK Slovakia|SVN SI Slovenia|ESP ES Spain|SWE SE Sweden|SUI CH Switzerland|TUR TR Türkiye|UKR UA Ukraine
WAL WAL Wales`

// differences from CLDR are deliberate: four teams that are no regions, names that changed after CLDR 32, which x/text
// has, and names that football in Brazil says otherwise.
var differences = map[string]string{
	"ENG": "Inglaterra", "NIR": "Irlanda do Norte", "SCO": "Escócia", "WAL": "País de Gales",
	"MK": "Macedônia do Norte", "SZ": "Essuatíni", "PS": "Palestina",
	"CD": "RD Congo", "CG": "Congo", "HK": "Hong Kong", "MM": "Mianmar", "MO": "Macau", "PF": "Taiti",
	"TW": "Taipé Chinesa",
}

func TestNationalTeam_of_every_member_of_FIFA_has_the_name_of_CLDR_or_of_football(t *testing.T) {
	t.Parallel()
	brazilian, seen, used := display.Regions(language.BrazilianPortuguese), map[string]string{}, 0
	for row := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(members), "\n", "|"), "|") {
		code, rest, _ := strings.Cut(row, " ")
		region, english, _ := strings.Cut(rest, " ")
		want, iso := differences[region], code
		if parsed, err := language.ParseRegion(region); err == nil && len(region) == 2 {
			iso = parsed.ISO3()
			if cldr := brazilian.Name(parsed); want == cldr {
				t.Errorf("%s is no difference from CLDR", want)
			} else if want == "" {
				want = cldr
			}
		}
		if differences[region] != "" {
			used++
		}
		if other := seen[want]; other != "" || want == "" {
			t.Errorf("%s and %s are both %q", code, other, want)
		}
		seen[want] = code
		for what, got := range map[string]string{
			"name": scoreboard.NationalTeam(english), "FIFA's code": scoreboard.NationalTeam("?", code),
			"ISO's code": scoreboard.NationalTeam("?", "", iso), "Portuguese name": scoreboard.NationalTeam(want),
			"capitals":   scoreboard.NationalTeam(strings.ToUpper(english)),
			"youth":      strings.TrimSuffix(scoreboard.NationalTeam(english+" U20", code), " Sub-20"),
			"women":      strings.TrimSuffix(scoreboard.NationalTeam(english+" W"), " Feminino"),
			"the whole":  strings.TrimSuffix(scoreboard.NationalTeam(english+" U23 Olympic Team"), " Sub-23 Olímpico"),
			"wrong code": scoreboard.NationalTeam(english, "BRA"),
		} {
			if got != want {
				t.Errorf("%s by %s: %s, want %s", english, what, got, want)
			}
		}
	}
	if len(seen) != 211 || used != len(differences) {
		t.Errorf("%d members, %d of %d differences are used", len(seen), used, len(differences))
	}
}

func TestNationalTeam_keeps_its_marks_in_Portuguese(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Brazil U20": "Brasil Sub-20", "Brazil U-20": "Brasil Sub-20", "Brazil Under 20": "Brasil Sub-20",
		"Brazil Under-20s": "Brasil Sub-20", "Brazil (U20)": "Brasil Sub-20", "Brazil Sub-20": "Brasil Sub-20",
		"Brazil u17": "Brasil Sub-17", "Brazil W": "Brasil Feminino", "Brazil Women": "Brasil Feminino",
		"Brazil Women's": "Brasil Feminino", "Brazil (W)": "Brasil Feminino", "Brazil Ladies": "Brasil Feminino",
		"Brazil Olympic": "Brasil Olímpico", "Brazil Olympic Team": "Brasil Olímpico",
		"Brazil Olympics": "Brasil Olímpico",
		"Brazil U20 W":    "Brasil Sub-20 Feminino", "Brazil W U20": "Brasil Feminino Sub-20",
		"Brazil U-20 Women": "Brasil Sub-20 Feminino", "Brazil Women's National Team": "Brasil Feminino",
		"Brazil U23 Olympic Team": "Brasil Sub-23 Olímpico", "Brazil B": "Brasil B", "Brazil Men": "Brasil Masculino",
		"Guinea-Bissau U20": "Guiné-Bissau Sub-20", "Côte d’Ivoire W": "Costa do Marfim Feminino",
		"Brasil Sub-20": "Brasil Sub-20", "Brasil Feminino": "Brasil Feminino",
	} {
		for _, codes := range [][]string{nil, {"BRA"}} {
			if !strings.HasPrefix(want, "Brasil") {
				codes = nil
			}
			if got := scoreboard.NationalTeam(name, codes...); got != want {
				t.Errorf("%q with %v: %q, want %q", name, codes, got, want)
			}
		}
	}
}
