package config

import "testing"

func TestDocs_are_of_every_variable_and_of_no_other(t *testing.T) {
	t.Parallel()
	list := Variables()
	for _, v := range list {
		if docs[v.Name].sentence == "" {
			t.Errorf("%s has no sentence in docs.go", v.Name)
		}
	}
	if len(docs) != len(list) {
		t.Errorf("docs.go has %d variables, Config %d", len(docs), len(list))
	}
}
