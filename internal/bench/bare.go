package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/materials"
)

// The bare limits: each part of the intake alone, as fast as this machine does it. The composition of all three is
// what an intake without any cost of its own would reach.

const bareDuration = 5 * time.Second

// bareHTTP serves the intake's route until SIGTERM with nothing behind it: gin, the verification of the JWT on each
// request, the request's decoding and validation. It prints its address and a token.
func bareHTTP(ctx context.Context) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA,
		jwt.RegisteredClaims{Subject: "bench",
			ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour))}).SignedString(private)
	if err != nil {
		return err
	}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"EdDSA"}), jwt.WithExpirationRequired())
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.POST("/api/material-requests", func(c *gin.Context) {
		header := c.GetHeader("Authorization")
		if _, err := parser.Parse(header[min(len("Bearer "), len(header)):],
			func(*jwt.Token) (any, error) { return public, nil }); err != nil {
			c.AbortWithStatus(http.StatusUnauthorized)
		}
	}, httpapi.Handle(func(c *gin.Context) error {
		request, err := materials.ReadRequest(c)
		if err != nil {
			return err
		}
		httpapi.JSON(c, http.StatusCreated, map[string]any{"status": materials.Enqueued, "id": request.ID})
		return nil
	}))
	return serveBare(ctx, engine, token)
}

// serveBare serves a bare part until SIGTERM; it prints its address and what else its caller must know.
func serveBare(ctx context.Context, handler http.Handler, more ...any) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(append([]any{l.Addr()}, more...)...)
	server := httpapi.NewServer(handler, slog.New(slog.DiscardHandler))
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type noPublisher struct{}

func (noPublisher) Publish(...materials.Queued) {}

// bareRows prints how many requests a second the group commit alone makes durable for 64 callers.
func bareRows(ctx context.Context) error {
	db, err := database.Open(ctx, database.Config{
		URL: os.Getenv("DATABASE_URL"), Path: filepath.Join(os.Getenv("DATA_DIR"), "bare.db"),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Migrate(ctx); err != nil {
		return err
	}
	flushers := 2
	if db.Engine() == database.SQLite {
		flushers = 1
	}
	service := materials.New(materials.Deps{DB: db, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Publisher: noPublisher{}, Flushers: flushers})
	defer service.Close()
	var next atomic.Int64
	return printRate(func(end time.Time) error {
		for time.Now().Before(end) {
			err := service.Submit(ctx, materials.Request{SupplierID: "sup_bare", ID: next.Add(1), ShopCode: "SP-0001",
				Materials: bareItems()})
			if err != nil {
				return err
			}
		}
		return nil
	}, &next)
}

func bareItems() []materials.Material {
	item := materials.Material{MaterialID: 10, Material: "Shelf of steel, grey", SKU: "SHELF-90-GREY", Width: 90.5,
		Height: 30, Depth: new(25.0), Quantity: 4}
	return []materials.Material{item, item, item}
}

// printRate runs the work from 64 goroutines and prints how many were done a second.
func printRate(work func(end time.Time) error, done *atomic.Int64) error {
	begin := time.Now()
	failures := make([]error, connections)
	var group sync.WaitGroup
	for i := range connections {
		group.Go(func() { failures[i] = work(begin.Add(bareDuration)) })
	}
	group.Wait()
	fmt.Println(float64(done.Load()) / time.Since(begin).Seconds())
	return errors.Join(failures...)
}

// barePublish prints how many messages a second JetStream takes and acknowledges, with a window of 512 in flight.
func barePublish(ctx context.Context) error {
	url, err := required("NATS_URL")
	if err != nil {
		return err
	}
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(512))
	if err != nil {
		return err
	}
	config := jetstream.StreamConfig{Name: "BARE", Subjects: []string{"bare.>"}, Retention: jetstream.WorkQueuePolicy,
		Storage: jetstream.FileStorage, MaxMsgsPerSubject: 1}
	if _, err := js.CreateStream(ctx, config); err != nil {
		return err
	}
	sent := 0
	begin := time.Now()
	for ; time.Since(begin) < bareDuration; sent++ {
		if _, err := js.PublishMsgAsync(&nats.Msg{Subject: fmt.Sprintf("bare.sup.%d", sent),
			Header: nats.Header{"X-Request-Id": {"0123456789abcdef"}}}); err != nil {
			return err
		}
	}
	<-js.PublishAsyncComplete()
	fmt.Println(float64(sent) / time.Since(begin).Seconds())
	return js.DeleteStream(ctx, "BARE")
}
