package scoreboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/balldontlie"
	"github.com/supplyhub/supplyhub/internal/scoreboard/sportmonks"
)

// bends are what providers send in place of an optional member. One of the member's own type is another value, not a
// bent one.
var bends = []string{"", "null", `"x"`, "61.5", "true", "[]", `[{"x":1}]`, "{}"}

// The members of the board that a member may cost, by the provider's path: nothing where there is none, since it is not
// used, or the answer says the same in another place.
var (
	costsAtSportmonks = map[string]string{
		"/data[]/id": "*", "/data[]": "*", "/data[]/participants": "home|away", "/data[]/participants[]": "home|away",
		"/data[]/participants[]/id": "id", "/data[]/participants[]/name": "name|namept",
		"/data[]/participants[]/short_code": "acronym", "/data[]/participants[]/image_path": "logo",
		"/data[]/participants[]/type": "namept", "/data[]/round": "round", "/data[]/round/name": "round",
		"/data[]/stage": "stage", "/data[]/stage/name": "stage", "/data[]/scores": "score", "/data[]/scores[]": "score",
		"/data[]/scores[]/score": "score", "/data[]/scores[]/score/goals": "score",
		"/data[]/scores[]/score/participant": "score", "/data[]/scores[]/description": "score",
		"/data[]/periods": "minute|progress", "/data[]/periods[]": "minute|progress",
		"/data[]/periods[]/minutes": "minute|progress", "/data[]/periods[]/ticking": "minute|progress",
		"/data[]/periods[]/type_id": "minute|progress", "/data[]/season/name": "series", "/data[]/league/image_path": "logo",
	}
	costsAtBalldontlie = map[string]string{
		"/data[]/id": "*", "/data[]/datetime": "*", "/data[]": "*", "/data[]/status": "status|progress",
		"/data[]/stage": "stage", "/data[]/stage/name": "stage", "/data[]/home_team": "home", "/data[]/away_team": "away",
		"/data[]/home_team/id": "id", "/data[]/away_team/id": "id", "/data[]/home_team/name": "name|namept",
		"/data[]/away_team/name": "name|namept", "/data[]/home_team/abbreviation": "acronym",
		"/data[]/away_team/abbreviation": "acronym", "/data[]/home_team_source": "name|namept",
		"/data[]/away_team_source": "name|namept", "/data[]/home_team_source/description": "name|namept",
		"/data[]/away_team_source/description": "name|namept", "/data[]/home_score": "score", "/data[]/away_score": "score",
		"/data[]/round_number": "round", "/data[]/round_name": "round",
	}
)

// asking returns what is shown of a provider's body.
type asking func(body string) (scoreboard.Board, error)

func TestOptional_members_of_a_provider_cost_nothing_but_themselves(t *testing.T) {
	t.Parallel()
	log, now := slog.New(slog.DiscardHandler), func() time.Time { return time.Unix(1792277780, 0) }
	for name, test := range map[string]struct {
		provider func(url string) scoreboard.Provider
		day      time.Time
		costs    map[string]string
	}{
		"sportmonks": {func(url string) scoreboard.Provider { return sportmonks.New(url, "k", log, now) },
			time.Date(2026, 10, 17, 0, 0, 0, 0, time.UTC), costsAtSportmonks},
		"balldontlie": {func(url string) scoreboard.Provider { return balldontlie.New(url, "k", log) },
			time.Date(2026, 6, 14, 0, 0, 0, 0, time.UTC), costsAtBalldontlie},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var body string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
			defer server.Close()
			p := test.provider(server.URL)
			bendAll(t, name, test.costs, func(text string) (scoreboard.Board, error) {
				body = text
				return p.Board(context.Background(), scoreboard.Question{League: 648, Day: test.day})
			})
		})
	}
}

// bendAll bends each member of the sample in turn and compares what is shown then with what is shown of the sample.
func bendAll(t *testing.T, name string, costs map[string]string, ask asking) {
	t.Helper()
	sample, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := ask(string(sample))
	if err != nil || len(whole.Games) != 3 {
		t.Fatalf("the sample: %+v, %v", whole, err)
	}
	want, bent := flat(t, whole), 0
	var tree any
	if err := json.Unmarshal(sample, &tree); err != nil {
		t.Fatal(err)
	}
	places := map[string]int{}
	walk(tree, "", func(path string, set func(any), remove func(), old any) {
		place := fmt.Sprintf("%s %T", path, old)
		if places[place]++; path == "/data" || places[place] > 3 { // the next ones are as these
			return
		}
		for _, text := range bends {
			if text == "" && remove == nil || text != "" && sameKind(old, text) {
				continue
			}
			if text == "" {
				remove()
			} else {
				set(json.RawMessage(text))
			}
			body, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			board, err := ask(string(body))
			if err != nil {
				t.Errorf("%s as %q: %v", path, text, err)
				continue
			}
			bent++
			for _, lost := range changed(want, flat(t, board)) {
				if may := costs[path]; may != "*" && (may == "" || !regexp.MustCompile(`/(`+may+`)(/|$|\[)`).MatchString(lost)) {
					t.Errorf("%s as %q costs %s", path, text, lost)
				}
			}
		}
		set(old)
	})
	if bent < 1000 {
		t.Errorf("only %d answers were bent", bent)
	}
}

// sameKind reports whether the JSON text has the type of the value.
func sameKind(old any, text string) bool {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		panic(err)
	}
	return fmt.Sprintf("%T", old) == fmt.Sprintf("%T", value)
}

// walk visits every member of an object and every element of a list. The path has no indices.
func walk(tree any, path string, visit func(path string, set func(any), remove func(), old any)) {
	switch node := tree.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(node)) {
			old := node[name]
			visit(path+"/"+name, func(v any) { node[name] = v }, func() { delete(node, name) }, old)
			walk(old, path+"/"+name, visit)
		}
	case []any:
		for i, old := range node {
			visit(path+"[]", func(v any) { node[i] = v }, nil, old)
			walk(old, path+"[]", visit)
		}
	}
}

// flat returns a board as values by path; a game's begins with its id.
func flat(t *testing.T, b scoreboard.Board) map[string]string {
	t.Helper()
	values := map[string]string{}
	var add func(path string, v any)
	add = func(path string, v any) {
		if members, ok := v.(map[string]any); ok {
			for name, member := range members {
				add(path+"/"+strings.ReplaceAll(strings.ToLower(name), "_", ""), member)
			}
			return
		}
		values[path] = fmt.Sprint(v)
	}
	for path, part := range map[string]any{"competition": b.Competition, "games": byID(b.Games)} {
		text, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		add(path, v)
	}
	return values
}

// untagged is a game with all of it in JSON.
type untagged struct {
	ID       int64 `json:",string"`
	KickOff  time.Time
	Stage    scoreboard.Stage
	Round    string
	Home     scoreboard.Team
	Away     scoreboard.Team
	Score    [2]int
	Status   scoreboard.Status
	Minute   int
	Progress int
}

func byID(list []scoreboard.Game) map[int64]untagged {
	found := map[int64]untagged{}
	for _, g := range list {
		found[g.ID] = untagged(g)
	}
	return found
}

// changed returns the paths whose values differ.
func changed(want, got map[string]string) []string {
	var paths []string
	for path := range want {
		if got[path] != want[path] {
			paths = append(paths, path)
		}
	}
	for path := range got {
		if _, known := want[path]; !known {
			paths = append(paths, path)
		}
	}
	return paths
}
