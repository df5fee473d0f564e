package scoreboard

import (
	"cmp"
	"strings"
)

// The words of the answer are Portuguese, whatever the providers say.

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
	return cmp.Or(known[league], strings.TrimSpace(name))
}

// WorldCup is the Portuguese name of the FIFA World Cup.
const WorldCup = "Copa do Mundo"
