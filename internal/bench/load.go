package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// loadPlan is what one load generator process does.
type loadPlan struct {
	Address     string        // host:port
	Path        string        //
	Token       string        // Bearer
	Others      []string      // tokens of more suppliers, who send in turn
	Connections int           // kept alive
	Duration    time.Duration // of the sending
	PerSecond   int           // paced over all connections; 0: as fast as answers come
	FirstID     int64         // request ids count up from here
	Receiver    string        // host:port at which webhooks are awaited; empty: none
	Paths       []string      // asked for by GET, at random; empty: POST requests to Path
	Header      string        // of each GET, name and value
}

// loadResult is what it measured.
type loadResult struct {
	Accepted int64
	Other    int64 // answers that were not 201 or 200
	Seconds  float64
	P50, P99 time.Duration

	Delivered    int64   // webhooks of accepted requests: all of them
	DrainSeconds float64 // from the first request to the last webhook

	Delivery50, Delivery99 time.Duration // from the sending of the request to the arrival of its webhook
}

// perSecond returns the rate of accepted requests.
func (r loadResult) perSecond() float64 { return float64(r.Accepted) / r.Seconds }

func (r loadResult) flawless() error {
	if r.Other > 0 {
		return fmt.Errorf("%d of %d requests were not accepted", r.Other, r.Other+r.Accepted)
	}
	return nil
}

// runLoad generates the load: lean on purpose, as it shares the machine with what it measures.
func runLoad(p loadPlan) (loadResult, error) {
	var next atomic.Int64
	next.Store(p.FirstID)
	var accepted, other atomic.Int64
	hooks, err := p.receiver()
	if err != nil {
		return loadResult{}, err
	}
	defer hooks.close()
	latencies := make([][]time.Duration, p.Connections)
	failures := make([]error, p.Connections)
	begin := time.Now()
	end := begin.Add(p.Duration)
	var group sync.WaitGroup
	for i := range p.Connections {
		group.Go(func() {
			latencies[i], failures[i] = p.connection(begin, end, i, hooks, &next, &accepted, &other)
		})
	}
	group.Wait()
	result := loadResult{Accepted: accepted.Load(), Other: other.Load(), Seconds: time.Since(begin).Seconds()}
	result.P50, result.P99 = quantiles(slices.Concat(latencies...))
	return result, errors.Join(errors.Join(failures...), hooks.finish(begin, &result))
}

func (p loadPlan) receiver() (*receiver, error) {
	if p.Receiver == "" {
		return nil, nil
	}
	return startReceiver(p.Receiver)
}

func (p loadPlan) connection(begin, end time.Time, number int, hooks *receiver, next, accepted,
	other *atomic.Int64) ([]time.Duration, error) {
	conn, err := net.Dial("tcp", p.Address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reader := bufio.NewReaderSize(conn, 8<<10)
	var samples []time.Duration
	var buffer bytes.Buffer
	var answer []byte
	for turn := 0; time.Now().Before(end); turn++ {
		if p.PerSecond > 0 {
			due := begin.Add(time.Duration(turn*p.Connections+number) * time.Second / time.Duration(p.PerSecond))
			time.Sleep(time.Until(due))
			if due.After(end) {
				break
			}
		}
		id := next.Add(1)
		p.write(&buffer, id)
		start := time.Now()
		hooks.posting(id, start)
		if _, err := conn.Write(buffer.Bytes()); err != nil {
			return samples, err
		}
		var status int
		status, answer, err = readAnswer(reader, answer)
		if err != nil {
			return samples, err
		}
		samples = append(samples, time.Since(start))
		if status == 200 || status == 201 {
			accepted.Add(1)
			continue
		}
		other.Add(1)
	}
	return samples, nil
}

// body returns a request of about 600 bytes with three items.
func body(id int64) []byte {
	return fmt.Appendf(nil, `{"id":%d,"shop_code":"SP-0001",`+
		`"comment":"deliver to the side gate before noon, ask for the warehouse","materials":[`+
		`{"material_id":10,"material":"Shelf of steel, grey","material_variant_id":3,"material_variant":"90 cm",`+
		`"sku":"SHELF-90-GREY","width":90.5,"height":30,"depth":25,"quantity":4},`+
		`{"material_id":11,"material":"Bracket","material_variant_id":null,"material_variant":null,`+
		`"sku":"BRACKET-S","width":5,"height":5,"depth":12.5,"quantity":16},`+
		`{"material_id":12,"material":"Display sign","sku":"SIGN-A3","width":42,"height":29.7,"depth":0.3,"quantity":2}]}`,
		id)
}

// tokenOf returns the token of the supplier that sends the request.
func (p loadPlan) tokenOf(id int64) string {
	if turn := id % int64(len(p.Others)+1); turn > 0 {
		return p.Others[turn-1]
	}
	return p.Token
}

func (p loadPlan) write(buffer *bytes.Buffer, id int64) {
	if len(p.Paths) > 0 {
		buffer.Reset()
		fmt.Fprintf(buffer, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n",
			p.Paths[rand.IntN(len(p.Paths))], p.Address, p.Header)
		return
	}
	text := body(id)
	buffer.Reset()
	fmt.Fprintf(buffer, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		p.Path, p.Address, p.tokenOf(id), len(text))
	buffer.Write(text)
}

var contentLength = []byte("Content-Length: ")

// readAnswer reads one answer with a Content-Length into body and returns its status.
func readAnswer(r *bufio.Reader, body []byte) (status int, _ []byte, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, body, err
	}
	if len(line) < 12 {
		return 0, body, errors.New("the answer has no status line")
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, body, err
	}
	length := 0
	for {
		if line, err = r.ReadSlice('\n'); err != nil {
			return 0, body, err
		}
		if len(line) <= 2 {
			break
		}
		if rest, ok := bytes.CutPrefix(line, contentLength); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(rest))); err != nil {
				return 0, body, err
			}
		}
	}
	body = slices.Grow(body[:0], length)[:length]
	_, err = io.ReadFull(r, body)
	return status, body, err
}

// loadProcess is the generator as a process of its own: its plan comes in and its result goes out as JSON.
func loadProcess() error {
	var plan loadPlan
	if err := json.NewDecoder(os.Stdin).Decode(&plan); err != nil {
		return err
	}
	result, err := runLoad(plan)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
