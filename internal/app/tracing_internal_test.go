package app

import (
	"testing"

	"github.com/supplyhub/supplyhub/internal/telemetry"
)

func TestTracing_off_gives_the_packages_nothing_to_call_for_a_batch(t *testing.T) {
	t.Parallel()
	off := &pipeline{tracing: &telemetry.Tracing{}}
	if off.batch() != nil {
		t.Error("batches collect where their members come from, and nothing is traced")
	}
}
