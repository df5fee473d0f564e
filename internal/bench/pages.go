package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/cursor"
	"github.com/supplyhub/supplyhub/internal/round"
)

const (
	pageReads   = 15                     // of each address, each past the console's cache
	pageGoal    = 200 * time.Millisecond // that every page keeps
	pagesOf     = "PAGES_OF"             // an operator listener that runs already: nothing is filled, its pages are read
	pagesStored = "PAGES_REQUESTS"
)

// pagesBench measures every page of the console, and its JSON, over very many stored requests.
func pagesBench(ctx context.Context) error {
	if address := os.Getenv(pagesOf); address != "" {
		return readPages(ctx, address, os.Getenv("SECRETS_KEY"))
	}
	return onStack(ctx, func(ctx context.Context, s *stack) error {
		stored := int64(storedRequests)
		if text := os.Getenv(pagesStored); text != "" {
			var err error
			if stored, err = strconv.ParseInt(text, 10, 64); err != nil {
				return fmt.Errorf("%s: %w", pagesStored, err)
			}
		}
		if err := s.startNATS(); err != nil {
			return err
		}
		address, api, err := s.startAPI()
		if err != nil {
			return err
		}
		if _, _, err := s.supplier(ctx, address, "http://127.0.0.1:9/hook"); err != nil {
			return err
		}
		if err := s.stop(api); err != nil {
			return err
		}
		begin := time.Now()
		if err := s.fillPages(ctx, stored); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		fmt.Printf("%s\n%d requests of %d suppliers stored in %.0f s\n", machine(), stored, pageSuppliers,
			time.Since(begin).Seconds())
		if _, _, err := s.startAPI(); err != nil {
			return err
		}
		return readPages(ctx, "http://"+s.variable("ADMIN_ADDR"), s.variable("SECRETS_KEY"))
	})
}

// readPages prints what each page took at the median and at worst.
func readPages(ctx context.Context, address, secrets string) error {
	console := &pageReader{address: strings.TrimRight(address, "/")}
	paths, err := console.paths(ctx, secrets)
	if err != nil {
		return err
	}
	slow := 0
	fmt.Printf("%d reads of each page and of its JSON, none from the cache\n", pageReads)
	fmt.Printf("  %8s %8s %8s\n", "first", "median", "worst")
	for _, p := range paths {
		var took []time.Duration
		for i := range 2 * pageReads {
			path := p.path
			if i%2 == 1 {
				path = "/api" + cmp.Or(path, "/overview")
			}
			t, _, err := console.read(ctx, path)
			if err != nil {
				return err
			}
			took = append(took, t)
		}
		first := took[0]
		slices.Sort(took)
		worst, mark := took[len(took)-1], ""
		if worst > pageGoal {
			slow++
			mark = "  OVER"
		}
		fmt.Printf("  %8s %8s %8s   %s%s\n", milliseconds(first), milliseconds(took[len(took)/2]), milliseconds(worst),
			p.name, mark)
	}
	if slow > 0 {
		return fmt.Errorf("%d pages took longer than %v", slow, pageGoal)
	}
	return nil
}

// pageReader reads the console past its cache, which goes by the whole address.
type pageReader struct {
	address string
	reads   int
}

func (r *pageReader) read(ctx context.Context, path string) (time.Duration, []byte, error) {
	r.reads++
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	begin := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("%s/console%s%sread=%d-%d", r.address, path, separator, begin.UnixNano(), r.reads), nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := http.DefaultTransport.RoundTrip(request) // what the search leads to is another page
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	took := time.Since(begin)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s: %.300s", path, response.Status, body)
	}
	return took, body, err
}

// pageList is what the lists of the console have in common.
type pageList struct {
	Items []struct {
		ID         any    `json:"id"`
		SupplierID string `json:"supplier_id"`
		Supplier   string `json:"supplier_name"`
		RequestID  int64  `json:"request_id"`
	}
	Next string `json:"next_cursor"`
}

func (r *pageReader) list(ctx context.Context, path string) (list pageList, err error) {
	_, body, err := r.read(ctx, "/api"+path)
	if err == nil {
		decoder := json.NewDecoder(strings.NewReader(string(body)))
		decoder.UseNumber()
		err = decoder.Decode(&list)
	}
	return list, err
}

type namedPath struct{ name, path string }

// paths returns all pages, the lists with all their filters, at their beginning and deep in.
func (r *pageReader) paths(ctx context.Context, secrets string) ([]namedPath, error) {
	paths := []namedPath{{"overview", ""}, {"receivers", "/receivers"}, {"failing receivers", "/receivers?state=failing"},
		{"suppliers", "/suppliers"}, {"scoreboard", "/scoreboard"}, {"trackers", "/trackers"}}
	var errList error
	add := func(name, path string) pageList {
		list, err := r.list(ctx, path)
		errList = cmp.Or(errList, err)
		paths = append(paths, namedPath{name, path})
		separator := map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]
		if list.Next != "" {
			paths = append(paths, namedPath{name + ", the second page",
				path + separator + "cursor=" + url.QueryEscape(list.Next)})
		}
		return list
	}
	deliveries, all := add("deliveries", "/deliveries"), add("requests", "/requests")
	if errList != nil || len(all.Items) == 0 || len(deliveries.Items) == 0 {
		return nil, errors.Join(errList, errors.New("there is no request or no delivery to look at"))
	}
	big := pageSupplier(0)
	for _, list := range []struct {
		path     string
		statuses []string
	}{{"/deliveries", []string{"pending", "delivered", "dead", "failed"}}, {"/requests", []string{"enqueued", "failed"}}} {
		for _, supplier := range []string{big, pageSupplier(pageSuppliers - 1)} {
			filter := "?supplier_id=" + supplier
			name := list.path[1:] + " of " + map[bool]string{true: "a big", false: "a small"}[supplier == big] + " supplier"
			add(name, list.path+filter)
			for _, status := range list.statuses {
				add(name+", "+status, list.path+filter+"&status="+status)
			}
		}
		for _, status := range list.statuses {
			add(list.path[1:]+", "+status, list.path+"?status="+status)
		}
	}
	deep, err := deepPaths(secrets)
	if err != nil {
		return nil, err
	}
	paths = append(paths, deep...)
	one := deliveries.Items[0]
	return append(paths, namedPath{"one request", fmt.Sprintf("/requests/%s/%d", one.SupplierID, one.RequestID)},
		namedPath{"one delivery", fmt.Sprintf("/deliveries/%v", one.ID)},
		namedPath{"search by request id", fmt.Sprintf("/search?q=%d", one.RequestID)},
		namedPath{"search by delivery id", fmt.Sprintf("/search?q=%v", one.ID)},
		namedPath{"search by supplier id", "/search?q=" + big},
		namedPath{"search by supplier name", "/search?q=" + url.QueryEscape("Supplier 77")},
		namedPath{"search by X-Request-Id", "/search?q=trace-" + strconv.FormatInt(one.RequestID, 10)},
		namedPath{"search by X-Request-Id, none", "/search?q=trace-unknown"}), errList
}

// deepPaths returns places in the middle of the lists, too far to be reached page by page: their cursors are sealed with
// the api's SECRETS_KEY.
func deepPaths(secrets string) ([]namedPath, error) {
	cursors, err := cursor.New(secrets)
	if err != nil || secrets == "" {
		return nil, err
	}
	uid := midRequest()
	var paths []namedPath
	for _, list := range []struct {
		path     string
		statuses []string
		key      []int64
	}{{"requests", []string{"", "failed"}, []int64{uid}},
		{"deliveries", []string{"", "delivered", "dead"}, []int64{uid, 1, int64(round.OwnEndpoint)}}} {
		for _, supplier := range []string{"", pageSupplier(0)} {
			for _, status := range list.statuses {
				name := strings.TrimRight(list.path+", deep, of "+cmp.Or(supplier, "all")+", "+status, ", ")
				paths = append(paths, namedPath{name, fmt.Sprintf("/%s?supplier_id=%s&status=%s&cursor=%s", list.path, supplier,
					status, cursors.List("console "+list.path, supplier, status).Seal(list.key...))})
			}
		}
	}
	return paths, nil
}
