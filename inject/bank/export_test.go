package bank

// WaitingWrites returns the number of writes that wait for the next commit.
func (b *Bank) WaitingWrites() int {
	b.queue.Lock()
	defer b.queue.Unlock()
	return len(b.waiting)
}
