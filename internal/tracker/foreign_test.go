package tracker_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// foreignRow is a row of a view that was made elsewhere. Nil is null.
type foreignRow struct {
	label            string // the same in rows that are equal in everything
	device           int64
	id               *foreignID
	loaded, ping, at *string
}

// foreignID is an id as SQL, and its place among the ids of its type.
type foreignID struct {
	sql   string
	place int
}

// foreignIDs makes ids of each type; the second one is what SQLite has in its place.
var foreignIDs = map[string]func(engine database.Engine, n int) foreignID{
	"integer": func(_ database.Engine, n int) foreignID { return foreignID{fmt.Sprint(n - 2), n} },
	"real": func(_ database.Engine, n int) foreignID {
		return foreignID{fmt.Sprintf("CAST(%d.5 AS double precision)", n), n}
	},
	"uuid": func(e database.Engine, n int) foreignID {
		text := fmt.Sprintf("'%08d-0000-4000-8000-00000000000%d'", n*11111111, n)
		if e == database.Postgres {
			text += "::uuid"
		}
		return foreignID{text, n}
	},
	"text": func(_ database.Engine, n int) foreignID { // in the order of their bytes, which no language has
		return foreignID{"'" + []string{"", "10", "9", "B", "Z", "a", "b", "é"}[n] + "'", n}
	},
	"timestamp": func(e database.Engine, n int) foreignID {
		text := fmt.Sprintf("'2026-11-0%d 10:00:00'", n+1)
		if e == database.Postgres {
			text += "::timestamp"
		}
		return foreignID{text, n}
	},
	"null": nil,
}

var typesOfIDs = map[string]string{"integer": "integer", "real": "double precision", "uuid": "uuid", "text": "text",
	"timestamp": "timestamp", "null": "text"}

func randomForeign(r *rand.Rand, engine database.Engine, make func(database.Engine, int) foreignID) []foreignRow {
	pick := func(format string, n int) *string {
		if r.IntN(5) == 0 {
			return nil
		}
		text := fmt.Sprintf(format, 1+r.IntN(n))
		return &text
	}
	var rows []foreignRow
	for i := range 10 + r.IntN(60) {
		if i > 0 && r.IntN(6) == 0 {
			rows = append(rows, rows[r.IntN(i)])
			continue
		}
		row := foreignRow{label: fmt.Sprint("r", i), device: 1 + r.Int64N(6), loaded: pick("2026-11-0%d", 3),
			ping: pick("2026-11-0%d", 3), at: pick("0%d:00:00", 3)}
		if make != nil && r.IntN(5) > 0 {
			id := make(engine, r.IntN(8))
			row.id = &id
		}
		rows = append(rows, row)
	}
	return rows
}

// columnsAs is how the columns of days and times are typed.
var columnsAs = map[string]struct{ loaded, ping, at string }{
	"dates": {"date", "date", "time"}, "timestamps": {"timestamp", "timestamptz", "time"},
	"texts": {"text", "text", "text"},
}

// viewOf makes a view of the rows over a table, on whose order nothing depends.
func viewOf(tb testing.TB, db *database.DB, name string, rows []foreignRow, idType string,
	types struct{ loaded, ping, at string }) {
	tb.Helper()
	literal := func(text *string, typeName string) string {
		switch {
		case text == nil && db.Engine() == database.Postgres:
			return "NULL::" + typeName
		case text == nil:
			return "NULL"
		case typeName == "timestamptz" && db.Engine() == database.Postgres:
			return "'" + *text + " 23:00:00-03'::timestamptz" // of São Paulo, the next day elsewhere
		case db.Engine() == database.Postgres:
			return "'" + *text + "'::" + typeName
		default:
			return "'" + *text + "'"
		}
	}
	var selects []string
	for _, r := range rows {
		values := map[string]string{
			"id": literal(nil, typesOfIDs[idType]), "dt_carga": literal(r.loaded, types.loaded),
			"data_de_ping": literal(r.ping, types.ping),
			"hora_de_ping": literal(r.at, types.at), "dispositivo": "'" + r.label + "'", "imei": fmt.Sprint(r.device),
		}
		if r.id != nil {
			values["id"] = r.id.sql
		}
		columns := []string{}
		for _, column := range append([]string{"id", "dt_carga"}, strings.Fields(recordFields)...) {
			columns = append(columns, cmp.Or(values[column], "NULL")+` AS "`+column+`"`)
		}
		selects = append(selects, "SELECT "+strings.Join(columns, ", "))
	}
	databasetest.Exec(tb, db, "CREATE TABLE "+name+"_rows AS "+strings.Join(selects, " UNION ALL "))
	databasetest.Exec(tb, db, "CREATE VIEW "+name+" AS SELECT * FROM "+name+"_rows")
}

// latest compares texts as the listings do: the latest first, null last.
func latest(a, b *string) int {
	switch {
	case a == nil || b == nil:
		return cmp.Compare(fmt.Sprint(a == nil), fmt.Sprint(b == nil))
	default:
		return cmp.Compare(*b, *a)
	}
}

func latestID(a, b *foreignID) int {
	switch {
	case a == nil || b == nil:
		return cmp.Compare(fmt.Sprint(a == nil), fmt.Sprint(b == nil))
	default:
		return cmp.Compare(b.place, a.place)
	}
}

func TestListings_of_any_view_show_each_row_once_in_the_stated_order(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := newFleet(t, db)
		seed := uint64(0)
		for idType, makeID := range foreignIDs {
			for typed, types := range columnsAs {
				seed++
				name := fmt.Sprintf("view_%d", seed)
				r := rand.New(rand.NewPCG(seed, 4))
				rows := randomForeign(r, db.Engine(), makeID)
				viewOf(t, db, name, rows, idType, types)
				if _, err := f.service.SetViews(t.Context(), f.client.ID, []string{name}); err != nil {
					t.Fatal(err)
				}
				of := "ids " + idType + ", columns " + typed
				sizes := []int{3 + r.IntN(4), 7 + r.IntN(20), 100}
				for _, day := range []string{"", "2026-11-02"} {
					checkList(t, f, of, rows, day, sizes)
					checkSnapshot(t, f, of, rows, day, sizes)
				}
			}
		}
	})
}

// crawl reads all pages.
func crawl(t *testing.T, f *fleet, path, day string, size int) (labels []string, total int) {
	t.Helper()
	if day != "" {
		day = "&filter=date:eq:" + day
	}
	for number := 1; ; number++ {
		p := f.get(fmt.Sprintf("%s?pageSize=%d&page=%d%s", path, size, number, day))
		if len(p.Labels) == 0 {
			return labels, p.Total
		}
		labels = append(labels, p.Labels...)
	}
}

func checkList(t *testing.T, f *fleet, of string, rows []foreignRow, day string, sizes []int) {
	t.Helper()
	byLabel, want := map[string]foreignRow{}, []string{}
	for _, r := range rows {
		if day == "" || r.loaded != nil && *r.loaded == day {
			byLabel[r.label] = r
			want = append(want, r.label)
		}
	}
	var before []string
	for _, size := range sizes {
		got, total := crawl(t, f, "/list", day, size)
		if before != nil && !slices.Equal(before, got) {
			t.Fatalf("%s, day %q, pages of %d have another order:\n%v\n%v", of, day, size, before, got)
		}
		before = got
		if total != len(want) || !gocmp.Equal(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))) {
			t.Fatalf("%s, day %q, pages of %d: %d rows, want %d\n%v\n%v", of, day, size, total, len(want), got, want)
		}
		inOrder := slices.IsSortedFunc(got, func(a, b string) int {
			return cmp.Or(latest(byLabel[a].loaded, byLabel[b].loaded), latestID(byLabel[a].id, byLabel[b].id))
		})
		if !inOrder {
			t.Fatalf("%s, day %q, pages of %d: not in order: %v", of, day, size, got)
		}
	}
}

// chosenBefore compares the records of a device.
func chosenBefore(a, b foreignRow) int {
	return cmp.Or(latest(a.at, b.at), latest(a.loaded, b.loaded), latestID(a.id, b.id))
}

func checkSnapshot(t *testing.T, f *fleet, of string, rows []foreignRow, day string, sizes []int) {
	t.Helper()
	target := day
	for _, r := range rows {
		if day == "" && r.ping != nil {
			target = max(target, *r.ping)
		}
	}
	byLabel, best := map[string]foreignRow{}, map[int64]foreignRow{}
	for _, r := range rows {
		if r.ping == nil || *r.ping != target {
			continue
		}
		byLabel[r.label] = r
		if other, found := best[r.device]; !found || chosenBefore(r, other) < 0 {
			best[r.device] = r
		}
	}
	var before []string
	for _, size := range sizes {
		got, total := crawl(t, f, "/snapshot", day, size)
		if before != nil && !slices.Equal(before, got) {
			t.Fatalf("%s, day %q, a snapshot of pages of %d is another:\n%v\n%v", of, day, size, before, got)
		}
		before = got
		if total != len(best) || len(got) != len(best) {
			t.Fatalf("%s, day %q, pages of %d: %d devices, total %d, want %d", of, day, size, len(got), total, len(best))
		}
		var device int64
		for _, label := range got {
			r, ofDay := byLabel[label]
			if !ofDay || r.device <= device || chosenBefore(r, best[r.device]) != 0 {
				t.Fatalf("%s, day %q, pages of %d: %s is not the record of device %d", of, day, size, label, r.device)
			}
			device = r.device
		}
	}
}

const recordFields = `dispositivo material identificador cnpj planejado endereco latitude longitude ligado sem_sinal
	desligado em_estoque nao_positivado alerta_inicial alerta_moderado alerta_critico imei data_de_captura data_de_ping
	data_de_positivacao data_de_recebimento data_captura hora_de_captura hora_de_ping hora_de_positivacao hora_captura
	nome_do_pdv canal regiao projeto loja_alvo rede categoria cnpj_da_loja razao_social_da_loja nome_fantasia_da_loja
	rua_positivacao cep_positivacao cidade_positivacao estado_positivacao bairro_positivacao logradouro_positivacao
	numero_positivacao complemento_positivacao latitude_positivacao longitude_positivacao latitude_rastreada
	longitude_rastreada endereco_rastreado emails_para_notificar perc_bateria`
