package broker

import "sync"

// table is a sync.Map of one type: reading it takes no lock that is contended.
type table[K comparable, V any] struct{ all sync.Map }

func (t *table[K, V]) load(key K) (*V, bool) {
	found, _ := t.all.Load(key)
	value, ok := found.(*V)
	return value, ok
}

// loadOrStore returns what stands under a key, which is value if nothing did.
func (t *table[K, V]) loadOrStore(key K, value *V) *V {
	found, _ := t.all.LoadOrStore(key, value)
	if other, ok := found.(*V); ok {
		return other
	}
	return value
}

func (t *table[K, V]) store(key K, value *V) { t.all.Store(key, value) }

func (t *table[K, V]) remove(key K) { t.all.Delete(key) }

func (t *table[K, V]) size() (n int) {
	t.all.Range(func(any, any) bool { n++; return true })
	return n
}
