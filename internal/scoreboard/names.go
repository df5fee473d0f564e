package scoreboard

import (
	"regexp"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// The words of the answer are Portuguese, whatever the providers say: these tables translate.

// nation is a national team: its Portuguese name, its FIFA and ISO codes, its English spellings.
type nation struct {
	portuguese string
	codes      []string
	names      []string
}

// nations returns the teams of the World Cups of 2018, 2022 and 2026.
func nations() []nation {
	return []nation{
		{"Argélia", []string{"ALG", "DZA"}, []string{"Algeria"}},
		{"Argentina", []string{"ARG"}, []string{"Argentina"}},
		{"Austrália", []string{"AUS"}, []string{"Australia"}},
		{"Áustria", []string{"AUT"}, []string{"Austria"}},
		{"Bélgica", []string{"BEL"}, []string{"Belgium"}},
		{"Bósnia e Herzegovina", []string{"BIH"},
			[]string{"Bosnia and Herzegovina", "Bosnia & Herzegovina", "Bosnia-Herzegovina", "Bosnia"}},
		{"Brasil", []string{"BRA"}, []string{"Brazil"}},
		{"Canadá", []string{"CAN"}, []string{"Canada"}},
		{"Costa do Marfim", []string{"CIV"}, []string{"Ivory Coast", "Côte d'Ivoire", "Cote d'Ivoire", "Côte d’Ivoire"}},
		{"Camarões", []string{"CMR"}, []string{"Cameroon"}},
		{"RD Congo", []string{"COD"}, []string{"DR Congo", "Congo DR", "Democratic Republic of the Congo", "Congo, DR",
			"DRC", "Congo-Kinshasa"}},
		{"Colômbia", []string{"COL"}, []string{"Colombia"}},
		{"Cabo Verde", []string{"CPV"}, []string{"Cape Verde", "Cabo Verde", "Cape Verde Islands"}},
		{"Costa Rica", []string{"CRC", "CRI"}, []string{"Costa Rica"}},
		{"Croácia", []string{"CRO", "HRV"}, []string{"Croatia"}},
		{"Curaçao", []string{"CUW"}, []string{"Curaçao", "Curacao"}},
		{"Tchéquia", []string{"CZE"}, []string{"Czech Republic", "Czechia"}},
		{"Dinamarca", []string{"DEN", "DNK"}, []string{"Denmark"}},
		{"Equador", []string{"ECU"}, []string{"Ecuador"}},
		{"Egito", []string{"EGY"}, []string{"Egypt"}},
		{"Inglaterra", []string{"ENG"}, []string{"England"}},
		{"Espanha", []string{"ESP"}, []string{"Spain"}},
		{"França", []string{"FRA"}, []string{"France"}},
		{"Alemanha", []string{"GER", "DEU"}, []string{"Germany"}},
		{"Gana", []string{"GHA"}, []string{"Ghana"}},
		{"Haiti", []string{"HAI", "HTI"}, []string{"Haiti"}},
		{"Irã", []string{"IRN"}, []string{"Iran", "IR Iran", "Islamic Republic of Iran"}},
		{"Iraque", []string{"IRQ"}, []string{"Iraq"}},
		{"Islândia", []string{"ISL"}, []string{"Iceland"}},
		{"Jordânia", []string{"JOR"}, []string{"Jordan"}},
		{"Japão", []string{"JPN"}, []string{"Japan"}},
		{"Coreia do Sul", []string{"KOR"}, []string{"South Korea", "Korea Republic", "Republic of Korea", "Korea, South"}},
		{"Arábia Saudita", []string{"KSA", "SAU"}, []string{"Saudi Arabia"}},
		{"Marrocos", []string{"MAR"}, []string{"Morocco"}},
		{"México", []string{"MEX"}, []string{"Mexico"}},
		{"Holanda", []string{"NED", "NLD"}, []string{"Netherlands", "Holland"}},
		{"Nigéria", []string{"NGA"}, []string{"Nigeria"}},
		{"Noruega", []string{"NOR"}, []string{"Norway"}},
		{"Nova Zelândia", []string{"NZL"}, []string{"New Zealand"}},
		{"Panamá", []string{"PAN"}, []string{"Panama"}},
		{"Paraguai", []string{"PAR", "PRY"}, []string{"Paraguay"}},
		{"Peru", []string{"PER"}, []string{"Peru"}},
		{"Polônia", []string{"POL"}, []string{"Poland"}},
		{"Portugal", []string{"POR", "PRT"}, []string{"Portugal"}},
		{"Catar", []string{"QAT"}, []string{"Qatar"}},
		{"África do Sul", []string{"RSA", "ZAF"}, []string{"South Africa"}},
		{"Rússia", []string{"RUS"}, []string{"Russia", "Russian Federation"}},
		{"Escócia", []string{"SCO"}, []string{"Scotland"}},
		{"Senegal", []string{"SEN"}, []string{"Senegal"}},
		{"Sérvia", []string{"SRB"}, []string{"Serbia"}},
		{"Suíça", []string{"SUI", "CHE"}, []string{"Switzerland"}},
		{"Suécia", []string{"SWE"}, []string{"Sweden"}},
		{"Tunísia", []string{"TUN"}, []string{"Tunisia"}},
		{"Turquia", []string{"TUR"}, []string{"Turkey", "Türkiye", "Turkiye"}},
		{"Uruguai", []string{"URU", "URY"}, []string{"Uruguay"}},
		{"Estados Unidos", []string{"USA"}, []string{"United States", "USA", "United States of America"}},
		{"Uzbequistão", []string{"UZB"}, []string{"Uzbekistan"}},
		{"País de Gales", []string{"WAL", "WLS"}, []string{"Wales"}},
	}
}

// portuguese finds a nation's Portuguese name by a code in capitals or by a folded English name.
var portuguese = sync.OnceValue(func() map[string]string {
	found := map[string]string{}
	for _, n := range nations() {
		for _, code := range n.codes {
			found[code] = n.portuguese
		}
		for _, name := range n.names {
			found[fold(name)] = n.portuguese
		}
	}
	return found
})

// squad is what follows a nation's name in those of its youth and women's teams.
var squad = regexp.MustCompile(`(?i)\s+(u\d{2}|women|w|olympic)$`)

// NationalTeam returns the Portuguese name of a national team, known by one of the codes or its English name; else the
// name itself. The mark of a youth or women's team stays.
func NationalTeam(name string, codes ...string) string {
	name = strings.TrimSpace(name)
	suffix := squad.FindString(name)
	for _, code := range codes {
		if found, ok := portuguese()[strings.ToUpper(strings.TrimSpace(code))]; ok {
			return found + suffix
		}
	}
	if found, ok := portuguese()[fold(strings.TrimSuffix(name, suffix))]; ok {
		return found + suffix
	}
	return name
}

// fold returns a name without accents and punctuation, in small letters.
func fold(name string) string {
	name = strings.ReplaceAll(name, "&", " and ")
	bare, _, err := transform.String(transform.Chain(norm.NFD, runes.Remove(runes.In(unicode.Mn)), norm.NFC), name)
	if err != nil {
		bare = name
	}
	return plain(bare)
}

// CompetitionName returns the Portuguese name of a league, known by its id at the primary provider; else the given
// name.
func CompetitionName(league int64, name string) string {
	known := map[int64]string{
		648:  "Campeonato Brasileiro Série A",
		651:  "Campeonato Brasileiro Série B",
		654:  "Copa do Brasil",
		1798: "Supercopa do Brasil",
		1631: "Campeonato Brasileiro Feminino",
		732:  WorldCup,
		1122: "Copa Libertadores",
		1116: "Copa Sul-Americana",
		2:    "Liga dos Campeões",
		5:    "Liga Europa",
		2286: "Liga Conferência",
		8:    "Campeonato Inglês",
		564:  "Campeonato Espanhol",
		384:  "Campeonato Italiano",
		82:   "Campeonato Alemão",
		301:  "Campeonato Francês",
		462:  "Campeonato Português",
		636:  "Campeonato Argentino",
		1452: "Copa Intercontinental",
		1082: "Amistosos Internacionais",
	}
	if found, ok := known[league]; ok {
		return found
	}
	return strings.TrimSpace(name)
}

// WorldCup is the Portuguese name of the FIFA World Cup.
const WorldCup = "Copa do Mundo"
