package queue_test

import (
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/queue"
)

func TestTell_reaches_the_worker_it_names_and_none_once_that_has_stopped_listening(t *testing.T) {
	t.Parallel()
	q := open(t, queue.Config{Dir: t.TempDir()})
	got := make(chan string, 10)
	stop, err := q.Listen(7, func(body []byte) { got <- string(body) })
	if err != nil {
		t.Fatal(err)
	}
	other, err := q.Listen(8, func(body []byte) { got <- "other " + string(body) })
	if err != nil {
		t.Fatal(err)
	}
	defer other()
	receive := func() string {
		select {
		case text := <-got:
			return text
		case <-time.After(10 * time.Second):
			return "nothing"
		}
	}
	if !q.Send(7, []byte("job")) || receive() != "job" {
		t.Error("the message did not arrive")
	}
	stop()
	if !q.Send(7, []byte("late")) || !q.Send(8, []byte("on time")) {
		t.Error("nothing was sent")
	}
	if text := receive(); text != "other on time" {
		t.Errorf("got %q", text)
	}
}
