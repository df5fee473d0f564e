// Command receiver takes the webhook calls of supplyhub: go run . with WEBHOOK_SECRET and PORT.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

func main() {
	secret, err := webhook.ParseSecret(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		log.Fatal("WEBHOOK_SECRET: ", err)
	}
	receiver := webhook.Handler([]webhook.Secret{secret}, func(ctx context.Context, e webhook.Event) error {
		// Do the work here, or store the event: 2xx is answered after it.
		fmt.Println(webhook.IDFrom(ctx), "request", e.Data.RequestID, "estimates", len(e.Data.Estimates))
		return nil // an error makes the service try again
	})
	server := &http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), Handler: receiver, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}
