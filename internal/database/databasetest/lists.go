package databasetest

import (
	"cmp"
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// Lists is a model of rows that are listed by cursors. While rows come, change and go it reads lists page by page, and
// fails where one shows a row twice, a row that it does not have, or rows out of order, and where its end has come
// without a row that was in it from its first page to its last.
type Lists[ID cmp.Ordered, Row any] struct {
	Store func(t *rapid.T, uid int64) // stores what has the uid, and puts it into Rows
	Rows  map[ID]Row                  // those that are stored
	UID   int64                       // the greatest that was given out

	late  []int64 // uids that were given out, of which nothing is stored yet
	lists []*List[ID, Row]
}

// List is one list, read to its end.
type List[ID cmp.Ordered, Row any] struct {
	Name   any                                              // for failures
	Has    func(Row) bool                                   // reports whether the row is in the list
	Behind func(a, b Row) bool                              // reports whether a comes later in the list than b
	Page   func(t *rapid.T, limit int) (ids []ID, end bool) // reads the next page

	expected, seen map[ID]bool
	last           Row
	ended          bool
}

// Come stores something under the next uid.
func (l *Lists[ID, Row]) Come(t *rapid.T) {
	l.UID++
	l.Store(t, l.UID)
}

// GiveOut takes the next uid, under which something is stored later, as a transaction does that takes long.
func (l *Lists[ID, Row]) GiveOut(*rapid.T) {
	l.UID++
	l.late = append(l.late, l.UID)
}

// ComeLate stores something under the first of these.
func (l *Lists[ID, Row]) ComeLate(t *rapid.T) {
	if len(l.late) == 0 {
		t.Skip("no uid was given out")
	}
	l.Store(t, l.late[0])
	l.late = l.late[1:]
}

// One draws a row that is stored.
func (l *Lists[ID, Row]) One(t *rapid.T) ID {
	if len(l.Rows) == 0 {
		t.Skip("nothing is stored")
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(l.Rows))).Draw(t, "row")
}

// Changed notes that a row was changed in Rows, or deleted from it: a list that it has left need not show it.
func (l *Lists[ID, Row]) Changed(id ID) {
	row, stored := l.Rows[id]
	for _, list := range l.lists {
		if !stored || !list.Has(row) {
			delete(list.expected, id)
		}
	}
}

// Begin reads the first page of a list.
func (l *Lists[ID, Row]) Begin(t *rapid.T, list *List[ID, Row]) {
	list.expected, list.seen = map[ID]bool{}, map[ID]bool{}
	for id, row := range l.Rows {
		if list.Has(row) {
			list.expected[id] = true
		}
	}
	l.lists = append(l.lists, list)
	l.read(t, list)
}

// Read reads the next page of one of the lists that have not ended.
func (l *Lists[ID, Row]) Read(t *rapid.T) {
	open := slices.DeleteFunc(slices.Clone(l.lists), func(list *List[ID, Row]) bool { return list.ended })
	if len(open) == 0 {
		t.Skip("no list is being read")
	}
	l.read(t, rapid.SampledFrom(open).Draw(t, "list"))
}

// End reads all lists to their ends.
func (l *Lists[ID, Row]) End(t *rapid.T) {
	for _, list := range l.lists {
		for !list.ended {
			l.read(t, list)
		}
	}
}

// read reads the next page of the list, and at its end asks whether all was seen.
func (l *Lists[ID, Row]) read(t *rapid.T, list *List[ID, Row]) {
	limit := rapid.IntRange(1, 9).Draw(t, "limit")
	var ids []ID
	if ids, list.ended = list.Page(t, limit); len(ids) > limit {
		t.Fatalf("a page of %d has %d rows", limit, len(ids))
	}
	for _, id := range ids {
		row, stored := l.Rows[id]
		if !stored || !list.Has(row) || list.seen[id] {
			t.Fatalf("%+v shows %v, which is %+v and was seen: %t", list.Name, id, row, list.seen[id])
		}
		if len(list.seen) > 0 && !list.Behind(row, list.last) {
			t.Fatalf("%+v shows %+v behind %+v", list.Name, row, list.last)
		}
		list.seen[id], list.last = true, row
	}
	for id := range list.expected {
		if list.ended && !list.seen[id] {
			t.Fatalf("%+v never showed %v: %+v", list.Name, id, l.Rows[id])
		}
	}
}
