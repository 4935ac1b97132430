irdl.dialect @mine {
  irdl.operation @twice {
    %0 = irdl.is i32
    irdl.operands(value: %0)
    irdl.results(result: %0)
  }
  irdl.type @box {
    %0 = irdl.any
    irdl.parameters(elem: %0)
  }
}
