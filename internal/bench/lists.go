package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	listReads  = 200 // of each page
	listLimit  = 20  // as pages have it when they are not asked for another
	listWalked = 100 // on the way to the end
	listScopes = "material-requests,webhooks,orders:read"
)

// listPages is a list with one filter, and what its pages took.
type listPages struct {
	path    string
	rows    int
	cursors []string           // of all its pages of listWalked; the first one has none
	took    [3][]time.Duration // page 1, the middle one, the last one
}

func lists() (all []*listPages) {
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

// readLists walks every list of the supplier to its end, then reads pages of all in turn and prints what these took.
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
			for i, cursor := range []string{l.cursors[0], l.cursors[len(l.cursors)/2], l.cursors[len(l.cursors)-1]} {
				_, _, took, err := l.read(ctx, address, token, listLimit, cursor)
				if err != nil {
					return err
				}
				l.took[i] = append(l.took[i], took)
			}
		}
	}
	fmt.Printf("%d reads of each page of %d, p50 and p99 of page 1, the middle and the last\n", listReads, listLimit)
	for _, l := range all {
		for _, took := range l.took {
			p50, p99 := quantiles(took)
			fmt.Printf("  %9s %9s", milliseconds(p50), milliseconds(p99))
		}
		fmt.Printf("  %d  %s\n", l.rows, strings.TrimRight(l.path, "?&"))
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
	path := fmt.Sprintf("http://%s%slimit=%d", address, l.path, limit)
	if cursor != "" {
		path += "&cursor=" + cursor
	}
	body, took, err := timedGet(ctx, path, token)
	if err != nil {
		return 0, "", 0, err
	}
	var answer struct {
		Data []json.RawMessage `json:"data"`
		Next string            `json:"next_cursor"`
	}
	err = json.Unmarshal(body, &answer)
	return len(answer.Data), answer.Next, took, err
}

// timedGet reads a page, and how long it takes. A redirect is not followed: a search that finds one thing points to it.
func timedGet(ctx context.Context, address, token string) (body []byte, took time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	begin := time.Now()
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	took = time.Since(begin)
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusSeeOther {
		err = errors.Join(err, fmt.Errorf("%s: %s: %.300s", address, response.Status, body))
	}
	return body, took, err
}

// quantiles returns the median and the 99th percentile, and sorts what took so long; of nothing they are 0.
func quantiles(took []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(took)
	if len(took) == 0 {
		return 0, 0
	}
	return took[len(took)/2], took[len(took)*99/100]
}
