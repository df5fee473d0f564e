package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

const consoleReads = 50 // of each page

// consolePages returns the console's pages over many requests, and searches by the number of one of them.
func consolePages(stored int64) []string {
	pages := []string{"?", "/receivers?", "/suppliers?", "/suppliers/sup_zz_7?", "/rates?", "/trackers?", "/scoreboard?",
		"/search?q=Supplier+77", fmt.Sprintf("/search?q=%d", stored/2+1),
		fmt.Sprintf("/requests/sup_zz_%d/%d?", (stored/2+1)%otherSuppliers, stored/2+1)}
	for _, status := range []string{"", "enqueued", "estimated", "selected", "failed"} {
		pages = append(pages, "/requests?status="+status, "/requests?supplier_id=sup_zz_7&status="+status)
	}
	for _, status := range []string{"", "pending", "delivered", "dead", "failed"} {
		pages = append(pages, "/deliveries?status="+status, "/deliveries?supplier_id=sup_zz_7&status="+status)
	}
	return pages
}

// readConsole reads the console's pages in turn and prints what each took.
func readConsole(ctx context.Context, admin string, stored int64) error {
	pages := consolePages(stored)
	took := make([][]time.Duration, len(pages))
	for i := range consoleReads {
		for j, page := range pages {
			// A parameter that no page reads makes it an address that was not read in the last two seconds.
			one, err := readPage(ctx, fmt.Sprintf("http://%s/console%s&read=%d", admin, page, i))
			if err != nil {
				return err
			}
			took[j] = append(took[j], one)
		}
	}
	fmt.Printf("%d reads of each page of the console, p50 and p99\n", consoleReads)
	for i, page := range pages {
		slices.Sort(took[i])
		fmt.Printf("  %9s %9s  /console%s\n", milliseconds(took[i][consoleReads/2]),
			milliseconds(took[i][consoleReads*99/100]), page)
	}
	return nil
}

func readPage(ctx context.Context, address string) (time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	response, err := http.DefaultTransport.RoundTrip(request) // a search that finds one thing points to its page
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if _, err = io.Copy(io.Discard, response.Body); err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusSeeOther {
		return 0, fmt.Errorf("%s: %s", address, response.Status)
	}
	return time.Since(begin), nil
}
