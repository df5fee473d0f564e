package scoreboard

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Stage is the code of a competition's stage.
type Stage string

// The stages.
const (
	RegularSeason    Stage = "REGULAR_SEASON"
	GroupStage       Stage = "GROUP_STAGE"
	RoundOf32        Stage = "ROUND_OF_32"
	RoundOf16        Stage = "ROUND_OF_16"
	QuarterFinals    Stage = "QUARTER_FINALS"
	SemiFinals       Stage = "SEMI_FINALS"
	ThirdPlaceFinal  Stage = "THIRD_PLACE_FINAL"
	Final            Stage = "FINAL"
	PlayOffs         Stage = "PLAY_OFFS"
	Qualification    Stage = "QUALIFICATION"
	PreliminaryRound Stage = "PRELIMINARY_ROUND"
	UnknownStage     Stage = "UNKNOWN"
)

// NamePT returns the stage's Portuguese name.
func (s Stage) NamePT() string {
	return cmp.Or(map[Stage]string{
		RegularSeason: "Temporada Regular", GroupStage: "Fase de Grupos", RoundOf32: "Fase de 32",
		RoundOf16: "Oitavas de Final", QuarterFinals: "Quartas de Final", SemiFinals: "Semifinais",
		ThirdPlaceFinal: "Disputa de 3º Lugar", Final: "Final", PlayOffs: "Playoffs", Qualification: "Classificatória",
		PreliminaryRound: "Rodada Preliminar",
	}[s], "Fase não identificada")
}

// StageOf reads the English names that a provider has for a match's stage and round. A match for the third place is one
// by any of them; otherwise the first that says something counts; UnknownStage when none does.
func StageOf(names ...string) Stage {
	stage := UnknownStage
	for _, name := range names {
		switch found := stageOf(plain(name)); {
		case found == ThirdPlaceFinal:
			return ThirdPlaceFinal
		case stage == UnknownStage:
			stage = found
		}
	}
	return stage
}

// stageOf reads a plain name. Whole names come first: a part of "128th Finals" is "8th Finals".
func stageOf(name string) Stage {
	is := func(names ...string) bool { return slices.Contains(names, name) }
	has := func(part string) bool { return strings.Contains(name, part) }
	for _, rule := range []struct {
		stage   Stage
		matches bool
	}{
		{ThirdPlaceFinal, isThirdPlace(name)},
		{RoundOf32, is("16th finals", "round of 32", "last 32", "1 16 finals")},
		{RoundOf16, is("8th finals", "round of 16", "last 16", "1 8 finals")},
		{QuarterFinals, strings.HasPrefix(name, "quarter")},
		{SemiFinals, strings.HasPrefix(name, "semi")},
		{Final, is("final", "finals", "grand final")},
		{PlayOffs, has("play off") || has("playoff")},
		{Qualification, has("qualif")},
		{PreliminaryRound, has("preliminary")},
		{GroupStage, has("group stage") || is("league stage", "league phase")},
		{RegularSeason, has("regular season") || is("apertura", "clausura")},
	} {
		if rule.matches {
			return rule.stage
		}
	}
	return UnknownStage
}

// isThirdPlace reports whether a plain name is one of the many of the match for the third place: it says third together
// with a place or a match, bronze, or that the final is the small one. A third round is not one, nor are teams that
// were third.
func isThirdPlace(name string) bool {
	words := strings.Fields(name)
	has := func(some ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(some, word) })
	}
	third := has("third", "3rd", "3o", "3º", "terceiro", "tercer")
	place := has("place", "places", "position", "lugar", "puesto", "fourth", "4th", "4")
	match := has("final", "finals", "match", "game", "decider", "off", "playoff", "playoffs")
	part := has("round", "stage", "phase", "group", "qualifying", "qualification", "week")
	joined := strings.ReplaceAll(name, " ", "")
	switch {
	case has("teams"):
		return false
	case third || has("3"):
		return place || third && match && !part || strings.Contains(joined, "place")
	default:
		return has("bronze") || match && has("small", "little", "consolation") ||
			strings.Contains(joined, "thirdplace") || strings.HasPrefix(joined, "3rdplace")
	}
}

// plain returns a name in small letters, digits and single spaces.
func plain(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return ' '
	}, name)
	return strings.Join(strings.Fields(name), " ")
}
