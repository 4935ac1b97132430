module @first { func.func @f() { return } }
module @second { func.func @g() { return } }
