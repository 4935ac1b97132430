// Größe
func.func @f() { /* no comment */ return }
