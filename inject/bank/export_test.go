package bank

// Waiting returns the number of writes that wait for a commit.
func (b *Bank) Waiting() int {
	b.queue.Lock()
	defer b.queue.Unlock()
	return len(b.waiting)
}
