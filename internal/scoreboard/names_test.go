package scoreboard_test

import (
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/scoreboard"
)

// worldCups are the teams of 2018, 2022 and 2026: Portuguese name, FIFA and ISO code, English spellings.
var worldCups = []struct {
	portuguese, fifa, iso string
	english               []string
}{
	{"Argélia", "ALG", "DZA", []string{"Algeria"}},
	{"Argentina", "ARG", "ARG", []string{"Argentina"}},
	{"Austrália", "AUS", "AUS", []string{"Australia"}},
	{"Áustria", "AUT", "AUT", []string{"Austria"}},
	{"Bélgica", "BEL", "BEL", []string{"Belgium"}},
	{"Bósnia e Herzegovina", "BIH", "BIH", []string{"Bosnia and Herzegovina", "Bosnia & Herzegovina",
		"Bosnia-Herzegovina", "Bosnia"}},
	{"Brasil", "BRA", "BRA", []string{"Brazil"}},
	{"Canadá", "CAN", "CAN", []string{"Canada"}},
	{"Costa do Marfim", "CIV", "CIV", []string{"Ivory Coast", "Côte d'Ivoire", "Cote d'Ivoire", "Côte d’Ivoire"}},
	{"Camarões", "CMR", "CMR", []string{"Cameroon"}},
	{"RD Congo", "COD", "COD", []string{"DR Congo", "Congo DR", "Democratic Republic of the Congo", "Congo, DR", "DRC",
		"Congo-Kinshasa"}},
	{"Colômbia", "COL", "COL", []string{"Colombia"}},
	{"Cabo Verde", "CPV", "CPV", []string{"Cape Verde", "Cabo Verde", "Cape Verde Islands"}},
	{"Costa Rica", "CRC", "CRI", []string{"Costa Rica"}},
	{"Croácia", "CRO", "HRV", []string{"Croatia"}},
	{"Curaçao", "CUW", "CUW", []string{"Curaçao", "Curacao"}},
	{"Tchéquia", "CZE", "CZE", []string{"Czech Republic", "Czechia"}},
	{"Dinamarca", "DEN", "DNK", []string{"Denmark"}},
	{"Equador", "ECU", "ECU", []string{"Ecuador"}},
	{"Egito", "EGY", "EGY", []string{"Egypt"}},
	{"Inglaterra", "ENG", "ENG", []string{"England"}},
	{"Espanha", "ESP", "ESP", []string{"Spain"}},
	{"França", "FRA", "FRA", []string{"France"}},
	{"Alemanha", "GER", "DEU", []string{"Germany"}},
	{"Gana", "GHA", "GHA", []string{"Ghana"}},
	{"Haiti", "HAI", "HTI", []string{"Haiti"}},
	{"Irã", "IRN", "IRN", []string{"Iran", "IR Iran", "Islamic Republic of Iran"}},
	{"Iraque", "IRQ", "IRQ", []string{"Iraq"}},
	{"Islândia", "ISL", "ISL", []string{"Iceland"}},
	{"Jordânia", "JOR", "JOR", []string{"Jordan"}},
	{"Japão", "JPN", "JPN", []string{"Japan"}},
	{"Coreia do Sul", "KOR", "KOR", []string{"South Korea", "Korea Republic", "Republic of Korea", "Korea, South"}},
	{"Arábia Saudita", "KSA", "SAU", []string{"Saudi Arabia"}},
	{"Marrocos", "MAR", "MAR", []string{"Morocco"}},
	{"México", "MEX", "MEX", []string{"Mexico"}},
	{"Holanda", "NED", "NLD", []string{"Netherlands", "Holland"}},
	{"Nigéria", "NGA", "NGA", []string{"Nigeria"}},
	{"Noruega", "NOR", "NOR", []string{"Norway"}},
	{"Nova Zelândia", "NZL", "NZL", []string{"New Zealand"}},
	{"Panamá", "PAN", "PAN", []string{"Panama"}},
	{"Paraguai", "PAR", "PRY", []string{"Paraguay"}},
	{"Peru", "PER", "PER", []string{"Peru"}},
	{"Polônia", "POL", "POL", []string{"Poland"}},
	{"Portugal", "POR", "PRT", []string{"Portugal"}},
	{"Catar", "QAT", "QAT", []string{"Qatar"}},
	{"África do Sul", "RSA", "ZAF", []string{"South Africa"}},
	{"Rússia", "RUS", "RUS", []string{"Russia", "Russian Federation"}},
	{"Escócia", "SCO", "SCO", []string{"Scotland"}},
	{"Senegal", "SEN", "SEN", []string{"Senegal"}},
	{"Sérvia", "SRB", "SRB", []string{"Serbia"}},
	{"Suíça", "SUI", "CHE", []string{"Switzerland"}},
	{"Suécia", "SWE", "SWE", []string{"Sweden"}},
	{"Tunísia", "TUN", "TUN", []string{"Tunisia"}},
	{"Turquia", "TUR", "TUR", []string{"Turkey", "Türkiye", "Turkiye"}},
	{"Uruguai", "URU", "URY", []string{"Uruguay"}},
	{"Estados Unidos", "USA", "USA", []string{"United States", "USA", "United States of America"}},
	{"Uzbequistão", "UZB", "UZB", []string{"Uzbekistan"}},
	{"País de Gales", "WAL", "WLS", []string{"Wales"}},
}

func TestNationalTeam_has_a_Portuguese_name_by_code_and_by_every_spelling(t *testing.T) {
	t.Parallel()
	if len(worldCups) != 58 {
		t.Fatalf("%d teams", len(worldCups))
	}
	for _, team := range worldCups {
		for _, name := range team.english {
			for what, got := range map[string]string{
				"name alone": scoreboard.NationalTeam(name), "FIFA code": scoreboard.NationalTeam(name, team.fifa),
				"ISO code":              scoreboard.NationalTeam(name, "", team.iso),
				"unknown code":          scoreboard.NationalTeam(" "+name+" ", "???"),
				"code in small letters": scoreboard.NationalTeam("Something", team.fifa),
			} {
				if got != team.portuguese {
					t.Errorf("%s, %s: %s, want %s", name, what, got, team.portuguese)
				}
			}
		}
	}
}

func TestNationalTeam_keeps_what_it_does_not_know(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"Flamengo": "Flamengo", "": "", "Flamengo U20": "Flamengo U20",
		"Flamengo W": "Flamengo W", "brazil": "Brasil", "Côte d’Ivoire": "Costa do Marfim", "CURACAO": "Curaçao"} {
		if got := scoreboard.NationalTeam(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestStages_by_name(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]scoreboard.Stage{
		"Regular Season": "REGULAR_SEASON", "Apertura": "REGULAR_SEASON", "Group Stage": "GROUP_STAGE",
		"League Phase": "GROUP_STAGE", "16th Finals": "ROUND_OF_32", "Round of 32": "ROUND_OF_32",
		"1/16-finals": "ROUND_OF_32",
		"8th Finals":  "ROUND_OF_16", "Round of 16": "ROUND_OF_16", "Quarter-finals": "QUARTER_FINALS",
		"Semi-finals": "SEMI_FINALS", "3rd Place Final": "THIRD_PLACE_FINAL", "Match for third place": "THIRD_PLACE_FINAL",
		"Final": "FINAL", " grand  final ": "FINAL", "Knockout Round Play-offs": "PLAY_OFFS", "Qualifying": "QUALIFICATION",
		"Preliminary Round": "PRELIMINARY_ROUND", "128th Finals": "UNKNOWN", "1st Round": "UNKNOWN", "": "UNKNOWN",
	} {
		if got := scoreboard.StageOf(name); got != want || got.NamePT() == "" {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// thirdPlaces are ways in which federations, feeds and newspapers name the match for the third place.
const thirdPlaces = `3rd Place Final|3rd Place|3rd place match|3rd-place match|3rd Place Play-off|3rd-place playoff
3rd Place Playoffs|3rd Place Game|3rd place decider|3RD PLACE|3rd/4th place|3rd/4th Place Play-off|3rd-4th Place Match
3rd and 4th place|3rd Final|3rd place final (single match)|Third Place|Third-place|Third place final|Third-Place Final
Third place match|Third-place match|Third Place Play-off|Third-place play-off|Third-place playoff|Third place play off
Third Place Playoff|Third Place Game|Third-place game|Third place decider|Third Place Decider Match
Third and fourth place
Third/Fourth Place|Third/fourth place play-off|Match for third place|Match for Third Place|Match for 3rd place
Play-off for third place|Play-off for Third Place|Play-off for 3rd place|Playoff for third place
Play off for third place
Final for third place|Final for 3rd place|Final - Third Place|Finals - 3rd Place|Game for third place
Decider for third place
Bronze final|Bronze Final|Bronze medal match|Bronze Medal Game|Bronze match|Bronze play-off|Bronze|Match for bronze
Small final|Little Final|Consolation Final|Consolation match|Place 3-4|Places 3/4|Play-off 3/4|Position 3-4
Third position
Third-placed play-off|THIRD_PLACE|THIRD_PLACE_FINAL|ThirdPlace|thirdPlacePlayoff|Disputa de 3º lugar
Disputa do terceiro lugar|Tercer puesto|Knockout - 3rd Place Final|Final stage: third place`

func TestStages_the_match_for_the_third_place_is_known_by_every_name(t *testing.T) {
	t.Parallel()
	ways := strings.Split(strings.ReplaceAll(thirdPlaces, "\n", "|"), "|")
	for _, name := range ways {
		for _, names := range [][]string{{name}, {"Knockout", name}, {"Final", name}, {name, "Final"}} {
			if got := scoreboard.StageOf(names...); got != scoreboard.ThirdPlaceFinal {
				t.Errorf("%q: %s", names, got)
			}
		}
	}
	if len(ways) < 70 {
		t.Errorf("only %d ways", len(ways))
	}
	for name, want := range map[string]scoreboard.Stage{
		"3rd Round": "UNKNOWN", "Third Round": "UNKNOWN", "3rd Qualifying Round": "QUALIFICATION",
		"Third round play-offs": "PLAY_OFFS", "3rd Preliminary Round": "PRELIMINARY_ROUND", "Match 3": "UNKNOWN",
		"3": "UNKNOWN", "Matchday 3": "UNKNOWN", "Third stage": "UNKNOWN", "Play-off of third-placed teams": "PLAY_OFFS",
		"Final": "FINAL", "Play-offs": "PLAY_OFFS", "Group 3": "UNKNOWN", "33rd place": "UNKNOWN",
	} {
		if got := scoreboard.StageOf(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

func TestStages_the_round_says_what_the_stage_does_not(t *testing.T) {
	t.Parallel()
	for want, names := range map[scoreboard.Stage][]string{"ROUND_OF_16": {"Knockout", "Round of 16"},
		"REGULAR_SEASON": {"Regular Season", "Final"}, "UNKNOWN": {"", "29"}} {
		if got := scoreboard.StageOf(names...); got != want {
			t.Errorf("%q: %s, want %s", names, got, want)
		}
	}
}
