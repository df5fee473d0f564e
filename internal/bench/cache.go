package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	crawlersAtOnce = 4
	pagesOfDay     = 180 // of a day's snapshot and of its list, 20 records each
	cacheRounds    = 5
)

// cacheBench measures pages/s of an api whose page maps are full beside one that holds the asked ones alone, both on
// one database and without a memory limit.
func cacheBench(ctx context.Context, s *stack) error {
	if err := s.startNATS(); err != nil {
		return err
	}
	f, err := s.newFleet(ctx, 1)
	if err != nil {
		return err
	}
	if err := f.fill(ctx); err != nil {
		return err
	}
	names := []string{"empty", "full"}
	var addresses []string
	var apis []*exec.Cmd
	for range names {
		address, api, err := s.startAPI()
		if err != nil {
			return err
		}
		addresses, apis = append(addresses, address), append(apis, api)
	}
	if err := f.crawl(ctx, addresses[1]); err != nil {
		return err
	}
	var paths []string
	for page := range pagesOfDay {
		day := fmt.Sprintf("?page=%d&filter=date:eq:%s", page+1, f.lastDay.AddDate(0, 0, -1).Format(time.DateOnly))
		paths = append(paths, snapshotPath+day, listPath+day)
	}
	rates := make([][]float64, len(names))
	for range cacheRounds { // in turns, as the machine is not equally fast all the time
		for i, address := range addresses {
			result, err := f.run(ctx, address, connections, paths)
			if err != nil {
				return fmt.Errorf("%s cache: %w", names[i], err)
			}
			rates[i] = append(rates[i], result.perSecond())
		}
	}
	for i, name := range names {
		slices.Sort(rates[i])
		fmt.Printf("  %-5s cache  %7.0f pages/s  the api holds %d MiB\n", name, rates[i][cacheRounds/2],
			pss(apis[i].Process.Pid)>>10)
	}
	fmt.Printf("  full of empty %.2f\n", rates[1][cacheRounds/2]/rates[0][cacheRounds/2])
	return nil
}

// crawl asks for the snapshot of every day, so that the api remembers as many as it may.
func (f *fleet) crawl(ctx context.Context, address string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(crawlersAtOnce)
	for i := range trackerDays {
		group.Go(func() error {
			day := f.lastDay.AddDate(0, 0, -1-i).Format(time.DateOnly)
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+snapshotPath+"?filter=date:eq:"+day, nil)
			if err != nil {
				return err
			}
			r.Header.Set(trackerHeader, f.key)
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				return err
			}
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("the snapshot of %s: status %d", day, response.StatusCode)
			}
			return nil
		})
	}
	return group.Wait()
}
