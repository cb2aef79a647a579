package bank

func (b *Bank) WaitingWrites() int {
	b.queue.Lock()
	defer b.queue.Unlock()
	return len(b.waiting)
}
