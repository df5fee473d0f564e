package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// The fleet that is listed: the first client has about half of all records.
const (
	trackerClients = 20
	trackerDays    = 730
	trackerHeader  = "svc-public-hub-key"
	listPath       = "/watch/devices/trackers"
	snapshotPath   = listPath + "/snapshot"
	pathsOfRun     = 512 // different pages that a run asks for
)

// trackerBench measures the listings over 5 million records.
func trackerBench(ctx context.Context, s *stack) error {
	f, err := s.newFleet(ctx, trackerClients)
	if err != nil {
		return err
	}
	if err := f.fill(ctx); err != nil {
		return err
	}
	if f.address, _, err = s.startAPI(); err != nil {
		return err
	}
	return f.measure(ctx)
}

// fleet is the clients with their keys; the first one is measured.
type fleet struct {
	*stack
	conn    *pgx.Conn
	address string
	ids     []string
	key     string
	total   int64
	lastDay time.Time
}

func (s *stack) newFleet(ctx context.Context, clients int) (*fleet, error) {
	if _, err := s.command(ctx, "migrate"); err != nil {
		return nil, err
	}
	f := &fleet{stack: s, lastDay: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}
	for i := range clients {
		out, err := s.command(ctx, "tracker", "client", "create", "--name", fmt.Sprintf("fleet %d", i+1), "-o", "json")
		if err != nil {
			return nil, err
		}
		var created struct {
			ID     string `json:"id"`
			APIKey string `json:"api_key"`
		}
		if err := json.Unmarshal(out, &created); err != nil {
			return nil, err
		}
		f.ids = append(f.ids, created.ID)
		if i == 0 {
			f.key = created.APIKey
		}
		if err := s.loadFile(ctx, created.ID, ""); err != nil { // makes the view
			return nil, err
		}
	}
	var err error
	f.conn, err = pgx.Connect(ctx, s.database())
	return f, err
}

func (s *stack) loadFile(ctx context.Context, client, records string) error {
	name := s.dir + "/load.ndjson"
	if err := os.WriteFile(name, []byte(records), 0o600); err != nil {
		return err
	}
	_, err := s.command(ctx, "tracker", "load", name, "--client", client)
	return err
}

// fill makes two years of daily loads inside PostgreSQL: the generator is not what is measured.
func (f *fleet) fill(ctx context.Context) error {
	begin := time.Now()
	for client := range f.ids {
		devices := 950 // with two years of days, about every third device reports: the small ones share the rest
		perDay := 170
		if client == 0 {
			devices, perDay = 5000, 3690
		}
		_, err := f.conn.Exec(ctx, `INSERT INTO tracker_records (client_number, dt_carga, imei, data_de_ping, hora_de_ping,
				dispositivo, material, identificador, cnpj, planejado, endereco, latitude, longitude, ligado, nome_do_pdv, canal,
				regiao, cidade_positivacao, latitude_rastreada, perc_bateria)
			SELECT $1, day, imei, day - 1, make_time(((imei * 7 + n * 5) % 24)::int, n % 60, 0), 'Rastreador ' || imei,
				'Gôndola', imei, '12.345.678/0001-95', true, 'Rua das Flores, ' || imei % 900, -23.5505, -46.6333, n % 3 > 0,
				'Loja ' || imei % 300, 'Varejo', 'Sudeste', 'São Paulo', '-23.550520', n % 100
			FROM (SELECT day::date AS day, n, (1 + (n * 7919 + extract(doy FROM day)::int * 31) % $3)::bigint AS imei
				FROM generate_series($2::date - $4::int + 1, $2::date, interval '1 day') AS day, generate_series(1, $5) AS n) r
			ORDER BY day`,
			client+1, f.lastDay, devices, trackerDays, perDay)
		if err != nil {
			return fmt.Errorf("fill client %d: %w", client+1, err)
		}
	}
	if _, err := f.conn.Exec(ctx, "VACUUM ANALYZE tracker_records"); err != nil {
		return err
	}
	var all int64
	err := f.conn.QueryRow(ctx, `SELECT sum(records), sum(records) FILTER (WHERE client_number = 1)
		FROM tracker_days`).Scan(&all, &f.total)
	if err != nil {
		return err
	}
	fmt.Printf("%d records of %d clients, %d of the measured one, made in %.0f s\n", all, len(f.ids), f.total,
		time.Since(begin).Seconds())
	return nil
}

// run asks for the paths at random, from as many connections.
func (f *fleet) run(ctx context.Context, address string, connections int, paths []string) (loadResult, error) {
	result, err := f.load(ctx, loadPlan{
		Address: address, Connections: connections, Duration: 4 * time.Second, Paths: paths,
		Header: trackerHeader + ": " + f.key,
	})
	if err != nil {
		return result, err
	}
	return result, result.flawless()
}

func (f *fleet) measure(ctx context.Context) error {
	day := f.lastDay.Format(time.DateOnly)
	pages := func(path, filter string, total int64) (first, random, last []string) {
		at := func(n int64) string { return fmt.Sprintf("%s?page=%d%s", path, n, filter) }
		deepest := (total + 19) / 20
		first = []string{at(1)}
		for range pathsOfRun {
			random = append(random, at(1+rand.Int64N(deepest)))
		}
		return first, random, []string{at(deepest)}
	}
	perDay := f.total / trackerDays
	for _, listing := range []struct {
		name, path, filter string
		total              int64
	}{
		{"list", listPath, "", f.total}, {"list of a day", listPath, "&filter=date:eq:" + day, perDay},
		{"snapshot", snapshotPath, "", 2500},
	} {
		first, random, last := pages(listing.path, listing.filter, listing.total)
		var reference time.Duration
		for i, paths := range [][]string{first, random, last} {
			result, err := f.run(ctx, f.address, connections, paths)
			if err != nil {
				return fmt.Errorf("%s: %w", listing.name, err)
			}
			if i == 0 {
				reference = result.P50
			}
			fmt.Printf("  %-14s %-12s %7.0f/s  p50 %s (%.2f of page 1)  p99 %s\n", listing.name,
				[]string{"page 1", "random page", "deepest page"}[i],
				result.perSecond(), milliseconds(result.P50), float64(result.P50)/float64(reference), milliseconds(result.P99))
		}
	}
	return nil
}
