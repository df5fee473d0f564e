package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestAnswers_are_decoded_in_turn_and_the_wait_ends_with_its_context(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, `{"retry_after":7}`)
	}))
	defer server.Close()
	c := New(server.URL, "k", slog.New(slog.DiscardHandler))
	if err := c.decoding.Acquire(t.Context(), 1); err != nil { // as another answer does
		t.Fatal(err)
	}
	page := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, _, err := c.Page(ctx, "/x", nil)
		return err
	}
	if err := page(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("behind another answer: %v", err)
	}
	c.decoding.Release(1)
	for range 2 { // each gives its turn back
		if _, _, err := c.Page(t.Context(), "/x", nil); err != nil {
			t.Errorf("alone: %v", err)
		}
	}
}
