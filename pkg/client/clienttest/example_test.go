package clienttest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/supplyhub/supplyhub/pkg/client"
	"github.com/supplyhub/supplyhub/pkg/client/clienttest"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// A test decides what is estimated, and when.
func ExampleServer_Estimate() {
	service := clienttest.New(clienttest.Config{}) // in a test: clienttest.Start(t, clienttest.Config{})
	hub, ctx := service.Client(), context.Background()
	service.HoldEstimates()
	_ = hub.CreateRequest(ctx, client.NewRequest{ID: 1, ShopCode: "S", Materials: []client.Item{
		{MaterialID: 1, Material: "Shelf", SKU: "A", Width: 1, Height: 1, Quantity: 1},
	}})
	request, _ := hub.Request(ctx, 1)
	fmt.Println(request.Status)
	service.Estimate(1, webhook.Estimate{EstimateID: "cheap", PriceCents: 100, Currency: "BRL",
		ValidUntil: time.Now().Add(time.Hour)})
	request, _ = hub.Request(ctx, 1)
	fmt.Println(request.Status, request.Estimates[0].EstimateID)
	// Output:
	// enqueued
	// estimated cheap
}

// What does your program do when the service refuses?
func ExampleServer_FailNext() {
	service := clienttest.New(clienttest.Config{})
	service.FailNext(1, http.StatusTooManyRequests, 2*time.Hour)
	_, err := service.Client().Ping(context.Background())
	fmt.Println(errors.Is(err, client.ErrTooManyRequests))
	// Output: true
}
