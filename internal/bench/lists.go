package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	listReads   = 200 // of each page
	listGoal    = 3 * time.Millisecond
	listLimit   = 20         // as pages have it when they are not asked for another
	listWalked  = 100        // on the way to the end
	listsOf     = "LISTS_OF" // an api that runs already: nothing is filled, its lists are read with the key LISTS_KEY
	listsKey    = "LISTS_KEY"
	listsStored = "LISTS_REQUESTS"
	listScopes  = "material-requests,webhooks,orders:read"
)

// listsBench measures the lists of one supplier over very many requests, at their beginning, in the middle and at the
// end.
func listsBench(ctx context.Context) error {
	if address := os.Getenv(listsOf); address != "" {
		return readLists(ctx, address, os.Getenv(listsKey))
	}
	return onStack(ctx, func(ctx context.Context, s *stack) error {
		key, err := s.filledLists(ctx, 1_000_000)
		if err != nil {
			return err
		}
		address, _, err := s.startAPI()
		if err != nil {
			return err
		}
		return readLists(ctx, address, key)
	})
}

// filledLists stores so many requests of one supplier, or LISTS_REQUESTS, and returns its key.
func (s *stack) filledLists(ctx context.Context, stored int64) (key string, err error) {
	if stored, err = strconv.ParseInt(cmp.Or(os.Getenv(listsStored), strconv.FormatInt(stored, 10)), 10, 64); err != nil {
		return "", fmt.Errorf("%s: %w", listsStored, err)
	}
	if err := s.startNATS(); err != nil {
		return "", err
	}
	if _, err := s.command(ctx, "migrate"); err != nil {
		return "", err
	}
	id, key, err := s.create(ctx, "http://127.0.0.1:9/hook", "--scopes", listScopes)
	if err != nil {
		return "", err
	}
	begin := time.Now()
	if err := s.fillLists(ctx, id, stored); err != nil {
		return "", fmt.Errorf("fill: %w", err)
	}
	fmt.Printf("%s\n%d requests of one supplier stored in %.0f s\n", machine(), stored, time.Since(begin).Seconds())
	return key, nil
}

// listPages is a list with one filter, and what its pages took.
type listPages struct {
	path    string
	rows    int
	cursors []string           // of all its pages of listWalked; the first one has none
	took    [3][]time.Duration // page 1, the middle one, the last one
}

func lists() []*listPages {
	var all []*listPages
	for _, list := range []struct {
		path     string
		statuses []string
	}{{intakePath, []string{"enqueued", "estimated", "selected", "failed"}}, {"/orders", nil},
		{"/api/webhook-deliveries", []string{"pending", "delivered", "dead", "failed"}}} {
		for _, status := range append([]string{""}, list.statuses...) {
			path := list.path + "?"
			if status != "" {
				path += "status=" + status + "&"
			}
			all = append(all, &listPages{path: path, cursors: []string{""}})
		}
	}
	return all
}

// readLists walks every list to its end, then reads pages of all in turn and prints what these took.
func readLists(ctx context.Context, address, key string) error {
	token, err := tokenOf(ctx, address, key)
	if err != nil {
		return err
	}
	all := lists()
	for _, l := range all {
		if err := l.walk(ctx, address, token); err != nil {
			return err
		}
	}
	for range listReads {
		for _, l := range all {
			pages := l.cursors
			for i, cursor := range []string{pages[0], pages[len(pages)/2], pages[len(pages)-1]} {
				_, _, took, err := l.read(ctx, address, token, listLimit, cursor)
				if err != nil {
					return err
				}
				l.took[i] = append(l.took[i], took)
			}
		}
	}
	over := 0
	fmt.Printf("%d reads of each page of %d, p50 and p99\n  %24s %24s %24s\n", listReads, listLimit, "page 1",
		"the middle", "the last")
	for _, l := range all {
		over += l.print()
	}
	if over > 0 {
		return fmt.Errorf("%d pages took over %v at the median", over, listGoal)
	}
	return nil
}

// walk follows the cursors to the end.
func (l *listPages) walk(ctx context.Context, address, token string) error {
	for {
		rows, next, _, err := l.read(ctx, address, token, listWalked, l.cursors[len(l.cursors)-1])
		if l.rows += rows; err != nil || next == "" {
			return err
		}
		l.cursors = append(l.cursors, next)
	}
}

func (l *listPages) read(ctx context.Context, address, token string, limit int, cursor string) (
	rows int, next string, took time.Duration, err error) {
	var answer struct {
		Data []json.RawMessage `json:"data"`
		Next string            `json:"next_cursor"`
	}
	path := fmt.Sprintf("http://%s%slimit=%d", address, l.path, limit)
	if cursor != "" {
		path += "&cursor=" + cursor
	}
	took, err = getList(ctx, path, token, &answer)
	return len(answer.Data), answer.Next, took, err
}

func (l *listPages) print() (over int) {
	fmt.Print(" ")
	for _, took := range l.took {
		slices.Sort(took)
		p50, p99, mark := took[len(took)/2], took[len(took)*99/100], "    "
		if p50 > listGoal {
			over++
			mark = "OVER"
		}
		fmt.Printf(" %9s %9s %s", milliseconds(p50), milliseconds(p99), mark)
	}
	fmt.Printf("  %d  %s\n", l.rows, strings.TrimRight(l.path, "?&"))
	return over
}

func getList(ctx context.Context, address, token string, into any) (time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	begin := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	took := time.Since(begin)
	if response.StatusCode != http.StatusOK {
		return 0, errors.Join(err, fmt.Errorf("%s: %s: %.300s", address, response.Status, body))
	}
	return took, errors.Join(err, json.Unmarshal(body, into))
}
