irdl.dialect @mine {
  irdl.operation @
}
