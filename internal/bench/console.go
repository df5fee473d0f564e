package main

import (
	"context"
	"fmt"
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
			_, one, err := timedGet(ctx, fmt.Sprintf("http://%s/console%s&read=%d", admin, page, i), "")
			if err != nil {
				return err
			}
			took[j] = append(took[j], one)
		}
	}
	fmt.Printf("%d reads of each page of the console, p50 and p99\n", consoleReads)
	for i, page := range pages {
		p50, p99 := quantiles(took[i])
		fmt.Printf("  %9s %9s  /console%s\n", milliseconds(p50), milliseconds(p99), page)
	}
	return nil
}
