package inject

func (w *work) loops() {}
