package groupcommit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
)

// double answers each item's double, and notes the batches.
func double(batches *[][]int, gate chan struct{}) groupcommit.Flush[int, int] {
	var mu sync.Mutex
	return func(_ context.Context, items []int) ([]int, error) {
		if gate != nil {
			<-gate
		}
		mu.Lock()
		defer mu.Unlock()
		*batches = append(*batches, slices.Clone(items))
		results := make([]int, len(items))
		for i, item := range items {
			results[i] = 2 * item
		}
		return results, nil
	}
}

func TestCallers_share_a_flush_while_another_runs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int
		gate := make(chan struct{})
		b := groupcommit.New(1, 4, 0, double(&batches, gate))
		defer b.Close()
		var group sync.WaitGroup
		for i := range 10 {
			group.Go(func() {
				if got, err := b.Do(context.Background(), i); got != 2*i || err != nil {
					t.Errorf("%d: %d, %v", i, got, err)
				}
			})
			synctest.Wait() // the first is in its flush, the others collect
		}
		close(gate)
		group.Wait()
		if len(batches) != 4 || len(batches[0]) != 1 || len(batches[1]) != 4 || len(batches[2]) != 4 {
			t.Errorf("the batches are %v", batches)
		}
	})
}

func TestLinger_waits_for_more_but_no_longer_than_it_says(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int
		b := groupcommit.New(1, 3, 10*time.Millisecond, double(&batches, nil))
		defer b.Close()
		begin := time.Now()
		var group sync.WaitGroup
		for i, delay := range []time.Duration{0, 4 * time.Millisecond, 30 * time.Millisecond, 31 * time.Millisecond,
			32 * time.Millisecond} {
			group.Go(func() {
				time.Sleep(delay)
				_, _ = b.Do(context.Background(), i)
				if i < 2 && time.Since(begin) != 10*time.Millisecond {
					t.Errorf("item %d was answered after %s", i, time.Since(begin))
				}
			})
		}
		group.Wait()
		if fmt.Sprint(batches) != "[[0 1] [2 3 4]]" || time.Since(begin) != 32*time.Millisecond {
			t.Errorf("the batches are %v after %s", batches, time.Since(begin))
		}
	})
}

func TestLinger_of_one_batch_is_not_shared_with_another_flusher_s(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int
		b := groupcommit.New(2, 8, 10*time.Millisecond, double(&batches, nil))
		var group sync.WaitGroup
		for i := range 6 {
			synctest.Wait() // each flusher that takes items waits for one
			group.Go(func() { _, _ = b.Do(context.Background(), i) })
		}
		group.Wait()
		b.Close()
		if len(batches) != 1 || len(batches[0]) != 6 {
			t.Errorf("the batches are %v", batches)
		}
	})
}

func TestBadItem_fails_alone_unless_the_failure_is_everybody_s(t *testing.T) {
	t.Parallel()
	bad, away := errors.New("bad item"), errs.NewUnavailable("The database is away.", time.Second, nil)
	for _, test := range []struct {
		failure error
		failed  int64
		flushes int64
	}{{bad, 1, 1 + 1 + 3}, {away, 3, 1 + 1}} {
		synctest.Test(t, func(t *testing.T) {
			var flushes, failed atomic.Int64
			gate := make(chan struct{})
			b := groupcommit.New(1, 8, 0, func(_ context.Context, items []int) ([]struct{}, error) {
				<-gate
				flushes.Add(1)
				if slices.Contains(items, 2) {
					return nil, test.failure
				}
				return make([]struct{}, len(items)), nil
			})
			defer b.Close()
			var group sync.WaitGroup
			for i := range 4 {
				group.Go(func() {
					if _, err := b.Do(context.Background(), i); err != nil {
						failed.Add(1)
					}
				})
				synctest.Wait()
			}
			close(gate)
			group.Wait()
			if failed.Load() != test.failed || flushes.Load() != test.flushes {
				t.Errorf("%v: %d failed in %d flushes", test.failure, failed.Load(), flushes.Load())
			}
		})
	}
}

func TestCaller_who_gives_up_does_not_stop_the_flush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int
		gate := make(chan struct{})
		b := groupcommit.New(1, 4, 0, double(&batches, gate))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { _, err := b.Do(ctx, 1); done <- err }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		close(gate)
		b.Close()
		if len(batches) != 1 {
			t.Errorf("the batches are %v", batches)
		}
	})
}

func TestHold_returns_when_no_batch_has_the_item_any_longer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int
		gate := make(chan struct{})
		b := groupcommit.New(1, 1, 0, double(&batches, gate))
		ctx, hangUp := context.WithCancel(t.Context())
		var returned [3]error // of an item that is being flushed, one that is in the next batch, one that has no place
		var left atomic.Int32
		var group sync.WaitGroup
		for i := range returned {
			group.Go(func() {
				_, returned[i] = b.Hold(ctx, i)
				left.Add(1)
			})
			synctest.Wait()
		}
		hangUp()
		synctest.Wait()
		if n := left.Load(); n != 1 || !errors.Is(returned[2], context.Canceled) {
			t.Errorf("while a batch waits %d returned, the one without a place with %v", n, returned[2])
		}
		close(gate)
		b.Close()
		group.Wait()
		if returned[0] != nil || returned[1] != nil || len(batches) != 2 {
			t.Errorf("got %v, the batches are %v", returned[:2], batches)
		}
	})
}

func TestClose_flushes_what_was_handed_over_and_refuses_the_rest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int
		gate := make(chan struct{})
		b := groupcommit.New(1, 2, time.Hour, double(&batches, gate))
		var group sync.WaitGroup
		for i := range 5 {
			group.Go(func() {
				if _, err := b.Do(context.Background(), i); err != nil {
					t.Errorf("%d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		close(gate)
		b.Close()
		b.Close()
		group.Wait()
		if _, err := b.Do(context.Background(), 9); !errors.Is(err, groupcommit.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		n := 0
		for _, batch := range batches {
			n += len(batch)
		}
		if n != 5 {
			t.Errorf("the batches are %v", batches)
		}
	})
}

func TestManyCallers_each_get_their_own_result(t *testing.T) {
	t.Parallel()
	var batches [][]int
	b := groupcommit.New(3, 16, 0, double(&batches, nil))
	var group sync.WaitGroup
	for i := range 2000 {
		group.Go(func() {
			if got, err := b.Do(t.Context(), i); got != 2*i || err != nil {
				t.Errorf("%d: %d, %v", i, got, err)
			}
		})
	}
	group.Wait()
	b.Close()
}

func TestEnqueue_does_not_wait_and_reports_each_result_once(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int
		gate := make(chan struct{})
		b := groupcommit.New(1, 3, 0, double(&batches, gate))
		reported := map[int]int{}
		for i := range 3 {
			err := b.Enqueue(t.Context(), i, func(value int, err error) {
				if err != nil || value != 2*i {
					t.Errorf("%d: %d, %v", i, value, err)
				}
				reported[i]++
			})
			if err != nil {
				t.Error(err)
			}
		}
		close(gate)
		b.Close()
		if want := map[int]int{0: 1, 1: 1, 2: 1}; !maps.Equal(reported, want) {
			t.Errorf("reported %v", reported)
		}
		if err := b.Enqueue(t.Context(), 9, func(int, error) { t.Error("reported after an error") }); !errors.Is(err,
			groupcommit.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestItem_whose_row_is_held_holds_up_no_other(t *testing.T) {
	t.Parallel()
	held := errs.NewUnavailable("Another transaction is in the way.", time.Second, nil)
	held.Passing = true
	for name, undecided := range map[string]bool{"the batch fails": false, "the others are done": true} {
		for free, want := range map[int64]error{2: nil, 1000: held} { // after so many tries it is free
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int64
				b := groupcommit.New(1, 8, time.Second, func(_ context.Context, items []int) ([]int, error) {
					i := slices.Index(items, 0)
					switch {
					case i < 0:
					case undecided && len(items) > 1:
						return items, groupcommit.Undecided{i}
					case tries.Add(1) <= free:
						time.Sleep(time.Second)
						return nil, held
					}
					return items, nil
				})
				defer b.Close()
				var group sync.WaitGroup
				for i := range 3 {
					group.Go(func() {
						begun := time.Now()
						_, err := b.Do(context.Background(), i)
						if i == 0 && !errors.Is(err, want) {
							t.Errorf("%s: the held one: %v", name, err)
						}
						if took := time.Since(begun); i > 0 && (err != nil || took > 2*time.Second) {
							t.Errorf("%s: another one waited for %s: %v", name, took, err)
						}
						if took := time.Since(begun); i == 0 && took > 7*time.Second {
							t.Errorf("%s: the held one waited for %s", name, took)
						}
					})
				}
				group.Wait()
			})
		}
	}
}

func TestItems_that_are_held_end_as_unavailable_in_seconds_and_the_others_are_flushed_however_slowly(t *testing.T) {
	t.Parallel()
	held := errs.NewUnavailable("Another transaction is in the way.", time.Second, nil)
	held.Passing = true
	const all = 500
	for _, locked := range []int{3, all} { // some rows, the table
		synctest.Test(t, func(t *testing.T) {
			b := groupcommit.New(2, 64, 0, func(_ context.Context, items []int) ([]int, error) {
				time.Sleep(time.Second)
				if slices.ContainsFunc(items, func(i int) bool { return i < locked }) {
					return nil, held
				}
				return items, nil
			})
			defer b.Close()
			var group sync.WaitGroup
			for i := range all {
				group.Go(func() {
					begun := time.Now()
					_, err := b.Do(t.Context(), i)
					if refused := errs.KindOf(err) == errs.Unavailable; refused != (i < locked) {
						t.Errorf("item %d of %d locked ones: %v", i, locked, err)
					}
					if took := time.Since(begun); locked == all && took > 12*time.Second {
						t.Errorf("it took %s", took)
					}
				})
			}
			group.Wait()
		})
	}
}
