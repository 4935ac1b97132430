func.func @f() { "ÿş"() : () -> () return }
