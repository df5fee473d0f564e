package console

import "testing"

func TestNew_reads_every_page_in_both_languages(t *testing.T) {
	t.Parallel()
	if _, err := New(Deps{}); err != nil {
		t.Error(err)
	}
}
