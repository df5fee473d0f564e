package scoreboard

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// Settings that an operator changes while the service runs: the league, the matches shown, the quota. Each process
// believes what it read for two seconds, and all callers of one moment share a reading. When the database does not
// answer, the question fails as one that could not be counted; only the header with the quota shows what was read
// last.

// settingsTrust is how long a replica believes what it read; a change is in effect everywhere before 5 seconds.
const settingsTrust = 2 * time.Second

// settingsTimeout is how long the database has to answer.
const settingsTimeout = 5 * time.Second

const (
	defaultQuota  = 80
	mostMatchIDs  = 200
	longestID     = 20
	keyDailyQuota = "scoreboard.daily_quota"
	keyActive     = "scoreboard.active"
	keyLeague     = "scoreboard.league_id"
	keyMatchIDs   = "scoreboard.match_ids"
)

// Setting is a runtime setting. Value is its default as long as IsSet is false.
type Setting struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	IsSet   bool   `json:"is_set"`
	Meaning string `json:"meaning"`
}

// known returns the settings with their defaults.
func known() []Setting {
	return []Setting{
		{Key: keyDailyQuota, Value: strconv.Itoa(defaultQuota), Meaning: "scoreboard requests of each requester a day"},
		{Key: keyActive, Value: "false", Meaning: "whether league_id and match_ids count"},
		{Key: keyLeague, Value: "", Meaning: "league shown instead of the requested one, while active; 648 when unset"},
		{Key: keyMatchIDs, Value: "", Meaning: "only these games are shown, while active; primary provider only"},
	}
}

// values are the settings as they are used.
type values struct {
	dailyQuota int64
	active     bool
	league     int64 // 0: none
	matchIDs   []string
}

// settings remembers the values for a moment.
type settings struct {
	store *store
	now   func() time.Time // monotonic
	last  atomic.Pointer[values]

	// mu guards what follows, and is held while the database is asked: one reading serves all callers of a moment.
	mu     sync.Mutex
	at     time.Time // of the last reading
	failed error     // of that reading
}

// newSettings reads the settings of a store; local is the process's clock.
func newSettings(st *store, now func() time.Time) *settings {
	s := &settings{store: st, now: now}
	s.last.Store(&values{dailyQuota: defaultQuota})
	return s
}

// lastQuota returns the daily quota as it was read last.
func (s *settings) lastQuota() int64 { return s.last.Load().dailyQuota }

// current returns the values, at most settingsTrust old. With an error they are those that were read last; it is
// believed for a moment only, so that a caller waits for one failure and not for one at each step.
func (s *settings) current(ctx context.Context) (values, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	trust := settingsTrust
	if s.failed != nil {
		trust = refusedTrust
	}
	if s.at.IsZero() || s.now().Sub(s.at) >= trust {
		s.failed = s.load(context.WithoutCancel(ctx))
		s.at = s.now()
	}
	return *s.last.Load(), s.failed
}

// load reads the values for all who wait for them. It belongs to no single caller.
func (s *settings) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	stored, err := s.store.settings(ctx)
	if err != nil {
		return err
	}
	v := values{dailyQuota: defaultQuota}
	for key, text := range stored {
		_ = v.read(key, text) // only what set has checked is stored; a later version's keys are not ours
	}
	s.last.Store(&v)
	return nil
}

// read takes a value, or returns what is wrong with it.
func (v *values) read(key, text string) (detail string) {
	switch key {
	case keyDailyQuota:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || text[0] == '+' {
			return "must be an integer of at least 0, written in digits alone"
		}
		v.dailyQuota = n
	case keyActive:
		active, err := strconv.ParseBool(text)
		if err != nil {
			return "must be true or false"
		}
		v.active = active
	case keyLeague:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return "must be a positive integer"
		}
		v.league = n
	case keyMatchIDs:
		ids := strings.Split(text, ",")
		for i, id := range ids {
			ids[i] = strings.TrimSpace(id)
		}
		if len(ids) > mostMatchIDs || slices.ContainsFunc(ids, func(id string) bool { return !isID(id) }) {
			return fmt.Sprintf("must be 1 to %d match ids, numbers, separated by commas", mostMatchIDs)
		}
		v.matchIDs = ids
	default:
		return "is not a setting"
	}
	return ""
}

// isID reports whether a text may be a provider's id: at most twenty digits.
func isID(text string) bool {
	return text != "" && len(text) <= longestID && strings.Trim(text, "0123456789") == ""
}

// ListSettings returns all settings, those that are not set with their defaults.
func (s *Service) ListSettings(ctx context.Context) ([]Setting, error) {
	stored, err := s.store.settings(ctx)
	list := known()
	for i := range list {
		if value, found := stored[list[i].Key]; found {
			list[i].Value, list[i].IsSet = value, true
		}
	}
	return list, err
}

// SetSetting changes a setting on all replicas within 5 seconds. Errors: errs.Invalid for an unknown key or a bad
// value.
func (s *Service) SetSetting(ctx context.Context, key, value string) (Setting, error) {
	if detail := new(values).read(key, value); detail != "" {
		return Setting{}, errs.InvalidInput("The setting is not valid.", errs.At("/"+key, detail))
	}
	if err := s.store.set(ctx, key, value, s.now()); err != nil {
		return Setting{}, err
	}
	return s.setting(ctx, key)
}

// UnsetSetting resets a setting to its default. Errors: errs.Invalid for an unknown key.
func (s *Service) UnsetSetting(ctx context.Context, key string) (Setting, error) {
	if !slices.ContainsFunc(known(), func(k Setting) bool { return k.Key == key }) {
		return Setting{}, errs.InvalidInput("The setting is not valid.", errs.At("/"+key, "is not a setting"))
	}
	if err := s.store.unset(ctx, key); err != nil {
		return Setting{}, err
	}
	return s.setting(ctx, key)
}

// setting returns the setting of a key that is known.
func (s *Service) setting(ctx context.Context, key string) (Setting, error) {
	list, err := s.ListSettings(ctx)
	i := slices.IndexFunc(list, func(k Setting) bool { return k.Key == key })
	return list[i], err
}
