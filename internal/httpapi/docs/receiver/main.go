// Command receiver takes the webhook calls of supplyhub: go run receiver.go with WEBHOOK_SECRET and PORT.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const maxBody = 1 << 20

type event struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      struct {
		RequestID int64             `json:"request_id"`
		Estimates []json.RawMessage `json:"estimates"`
	} `json:"data"`
}

func main() {
	encoded, whole := strings.CutPrefix(os.Getenv("WEBHOOK_SECRET"), "whsec_")
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !whole || err != nil || len(key) < 24 || len(key) > 64 {
		log.Fatal("WEBHOOK_SECRET must be whsec_ followed by base64 of 24 to 64 bytes")
	}
	server := &http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), Handler: &receiver{key: key},
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 15 * time.Second}
	log.Fatal(server.ListenAndServe())
}

type receiver struct {
	key     []byte
	handled sync.Map // keep the ids in your database
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, call *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, call.Body, maxBody)) // raw, before anything parses it
	if err != nil {
		http.Error(w, "the body is too large, or did not come whole", http.StatusRequestEntityTooLarge)
		return
	}
	if call.Method != http.MethodPost || !r.verified(call.Header, body) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var e event
	err = json.Unmarshal(body, &e)
	estimated := e.Type == "material_request.estimated"
	if err != nil || estimated && e.Data.Estimates == nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	id := call.Header.Get("webhook-id")
	if _, before := r.handled.Load(id); !before && estimated {
		// Do the work here, or store the event: 2xx is answered after it. After an error answer 500, and it comes again.
		fmt.Println(id, "request", e.Data.RequestID, "estimates", len(e.Data.Estimates))
		r.handled.Store(id, true)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) verified(header http.Header, body []byte) bool {
	id, sent := header.Get("webhook-id"), header.Get("webhook-timestamp")
	at, err := strconv.ParseInt(sent, 10, 64)
	if err != nil || time.Since(time.Unix(at, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, r.key)
	fmt.Fprintf(mac, "%s.%s.%s", id, sent, body)
	want := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	for signature := range strings.FieldsSeq(header.Get("webhook-signature")) {
		if hmac.Equal([]byte(signature), want) {
			return true
		}
	}
	return false
}
