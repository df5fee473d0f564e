// Package lists makes a list, or a map, from another list.
package lists

// Of returns what each item has, in the order of the items.
func Of[T, V any](items []T, has func(T) V) []V {
	list := make([]V, len(items))
	for i, item := range items {
		list[i] = has(item)
	}
	return list
}

// By returns the items by a key that each has.
func By[K comparable, T any](items []T, key func(T) K) map[K]T {
	return Pairs(items, func(item T) (K, T) { return key(item), item })
}

// Pairs returns a value of each item by a key that it has.
func Pairs[K comparable, V, T any](items []T, of func(T) (K, V)) map[K]V {
	pairs := make(map[K]V, len(items))
	for _, item := range items {
		key, value := of(item)
		pairs[key] = value
	}
	return pairs
}
