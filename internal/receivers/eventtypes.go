package receivers

import (
	_ "embed" // the event types
	"encoding/json"
	"sync"
)

//go:embed eventtypes.json
var eventTypesJSON []byte

// EventType is a type of event that a supplier's receiver gets.
type EventType struct {
	Type        string          `json:"type"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Example     json.RawMessage `json:"example"`
}

var eventTypes = sync.OnceValues(func() (types []EventType, err error) {
	err = json.Unmarshal(eventTypesJSON, &types)
	return types, err
})

// Events returns the types of events that a supplier's receiver gets. They are part of the binary, as their schemas
// change with what it sends.
func (s *SelfService) Events() ([]EventType, error) { return eventTypes() }
