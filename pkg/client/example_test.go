package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	"github.com/supplyhub/supplyhub/pkg/client"
	"github.com/supplyhub/supplyhub/pkg/client/clienttest"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// From a request to a chosen estimate.
func Example() {
	service := clienttest.New(clienttest.Config{}) // in your program: client.New(client.Config{BaseURL: …, APIKey: …})
	hub := service.Client()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	err := hub.CreateRequest(ctx, client.NewRequest{ID: 1001, ShopCode: "SP-0042", Materials: []client.Item{
		{MaterialID: 7, Material: "Shelf", SKU: "SHELF-90-W", Width: 90, Height: 30, Quantity: 4},
	}})
	if err != nil {
		log.Fatal(err)
	}
	request, err := hub.Wait(ctx, 1001)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range request.Estimates {
		fmt.Printf("%s: %d.%02d %s\n", e.Service, e.PriceCents/100, e.PriceCents%100, e.Currency)
	}
	chosen, err := hub.Select(ctx, request.ID, request.Estimates[0].EstimateID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("selected:", chosen.EstimateID == request.Estimates[0].EstimateID)
	// Output:
	// road: 170.80 BRL
	// express: 250.00 BRL
	// selected: true
}

// Errors say what they mean by errors.Is and carry every violation.
func ExampleError() {
	hub := clienttest.New(clienttest.Config{}).Client()
	err := hub.CreateRequest(context.Background(), client.NewRequest{ID: 1, ShopCode: "SP-0042", Materials: []client.Item{
		{MaterialID: 7, SKU: "SHELF-90-W", Width: 90, Height: 30},
	}})
	var refused *client.Error
	if errors.Is(err, client.ErrInvalid) && errors.As(err, &refused) {
		for _, v := range refused.Violations {
			fmt.Println(v.Pointer, v.Detail)
		}
	}
	// Output:
	// /materials/0/material must not be blank
	// /materials/0/quantity must be an integer from 1 to 2147483647
}

// An iterator fetches page after page and stops when the loop does.
func ExampleClient_Requests() {
	hub := clienttest.New(clienttest.Config{}).Client()
	ctx := context.Background()
	for id := range int64(3) {
		if err := hub.CreateRequest(ctx, newRequest(id)); err != nil {
			log.Fatal(err)
		}
	}
	for request, err := range hub.Requests(ctx, "") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(request.ID)
	}
	// Output:
	// 2
	// 1
	// 0
}

// After an outage of the receiver one call sends again what it lost.
func ExampleClient_Recover() {
	service := clienttest.New(clienttest.Config{})
	hub, ctx := service.Client(), context.Background()
	outage := time.Now()
	closed := httptest.NewServer(nil)
	closed.Close() // nothing answers here
	if _, err := hub.SetReceiver(ctx, closed.URL); err != nil {
		log.Fatal(err)
	}
	if err := hub.CreateRequest(ctx, newRequest(1)); err != nil {
		log.Fatal(err)
	}
	service.Wait()

	receiver := httptest.NewServer(webhook.Handler([]webhook.Secret{service.WebhookSecret()},
		func(_ context.Context, e webhook.Event) error {
			fmt.Println("estimates of request", e.Data.RequestID)
			return nil
		}))
	defer receiver.Close()
	if _, err := hub.SetReceiver(ctx, receiver.URL); err != nil {
		log.Fatal(err)
	}
	n, err := hub.Recover(ctx, client.Recovery{Status: client.Dead, Since: outage})
	if err != nil {
		log.Fatal(err)
	}
	service.Wait()
	fmt.Println("sent again:", n)
	// Output:
	// estimates of request 1
	// sent again: 1
}
