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
	"time"
)

const (
	listReads    = 200 // of each address
	listGoal     = 5 * time.Millisecond
	listTimes    = 2          // what a deep page may take, of page 1
	listPageSize = 20         // as pages have it when they are not asked for another
	listsOf      = "LISTS_OF" // an api that runs already: nothing is filled, its lists are read with the key LISTS_KEY
	listsKey     = "LISTS_KEY"
	listsStored  = "LISTS_REQUESTS"
	listScopes   = "material-requests,webhooks,orders:read"
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
		if err := s.untilSplit(ctx); err != nil {
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
	total   int64
	counted bool               // total is known
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
			path := fmt.Sprintf("%s?pageSize=%d", list.path, listPageSize)
			if status != "" {
				path += "&status=" + status
			}
			all = append(all, &listPages{path: path})
		}
	}
	return all
}

// readLists reads every list in turn, and prints what its pages took.
func readLists(ctx context.Context, address, key string) error {
	token, err := tokenOf(ctx, address, key)
	if err != nil {
		return err
	}
	all := lists()
	for range listReads {
		for _, l := range all {
			if err := l.read(ctx, address, token); err != nil {
				return err
			}
		}
	}
	over := 0
	fmt.Printf("%d reads of each page of %d, p50 and p99\n  %24s %24s %24s\n", listReads, listPageSize, "page 1",
		"the middle", "the last")
	for _, l := range all {
		over += l.print()
	}
	if over > 0 {
		return fmt.Errorf("%d pages took over %v, or over %d times their page 1, at the median", over, listGoal, listTimes)
	}
	return nil
}

// read reads the list's three pages once.
func (l *listPages) read(ctx context.Context, address, token string) error {
	last := max(1, (l.total+listPageSize-1)/listPageSize)
	for i, page := range []int64{1, (last + 1) / 2, last} {
		var answer struct {
			Data  []json.RawMessage `json:"data"`
			Total int64             `json:"total"`
		}
		took, err := getList(ctx, fmt.Sprintf("http://%s%s&page=%d", address, l.path, page), token, &answer)
		if err != nil {
			return err
		}
		if !l.counted {
			l.total, l.counted = answer.Total, true
			return l.read(ctx, address, token)
		}
		if wanted := min(listPageSize, l.total-(page-1)*listPageSize); answer.Total != l.total ||
			int64(len(answer.Data)) != wanted {
			return fmt.Errorf("%s: page %d has %d rows of %d, not %d of %d", l.path, page, len(answer.Data), answer.Total,
				wanted, l.total)
		}
		l.took[i] = append(l.took[i], took)
	}
	return nil
}

func (l *listPages) print() (over int) {
	var first time.Duration
	fmt.Print(" ")
	for i, took := range l.took {
		slices.Sort(took)
		p50, p99, mark := took[len(took)/2], took[len(took)*99/100], "    "
		if i == 0 {
			first = p50
		}
		if p50 > listGoal || p50 > listTimes*first {
			over++
			mark = "OVER"
		}
		fmt.Printf(" %9s %9s %s", milliseconds(p50), milliseconds(p99), mark)
	}
	fmt.Printf("  %d  %s\n", l.total, l.path)
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
