// Package tracker lists device tracker records, for each client from the view that it was granted, whichever program
// made that view. Views made here show a built-in store, whose counters let every page cost the same. Other views give
// the same answers, more slowly.
package tracker

import (
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/supplyhub/supplyhub/internal/database"
)

const (
	statementTimeout = 5 * time.Second // of one read; a foreign view may be slow
	relationsKept    = 1024            // views whose columns are remembered
	relationTrust    = time.Minute     // then their columns are looked up again
	clientsKept      = 4096
)

// Deps is what the package is built from.
type Deps struct {
	DB  *database.DB
	Log *slog.Logger
	Now func() time.Time

	Serving bool // by the api that answers clients: it may run the code of views of others with its own login
}

// Service lists records and keeps clients and their grants.
type Service struct {
	deps      Deps
	store     *store
	rows      *database.Rows
	encoder   encoder
	relations *lru.Cache[string, *relation]
	clients   *lru.Cache[[32]byte, Client]
	maps      *pageMaps
	pinned    *lru.Cache[pinKey, pin]
	buffers   sync.Pool // of answers, as *[]byte
	turns     turns
}

// New builds the service; Close releases its connections.
func New(deps Deps) *Service {
	relations, _ := lru.New[string, *relation](relationsKept) // they fail without a size alone
	clients, _ := lru.New[[32]byte, Client](clientsKept)
	pinned, _ := lru.New[pinKey, pin](pinsKept)
	return &Service{
		deps: deps, store: &store{db: deps.DB}, rows: deps.DB.Rows(statementTimeout), encoder: newEncoder(),
		relations: relations, clients: clients, maps: newPageMaps(), pinned: pinned,
		turns: newTurns(deps.DB),
	}
}

// Close releases the reading connections.
func (s *Service) Close() { s.rows.Close() }
