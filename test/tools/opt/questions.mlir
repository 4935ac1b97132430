// RUN: stepwell-opt --list-passes | FileCheck %s --check-prefix=LIST
// RUN: stepwell-opt --help | FileCheck %s --check-prefixes=HELP,LIST
// RUN: stepwell-opt -h | FileCheck %s --check-prefixes=HELP,LIST
// RUN: stepwell-opt --help-nothing %s | FileCheck %s --check-prefixes=HELP,LIST
// RUN: stepwell-opt --show-dialects | FileCheck %s --check-prefix=DIALECTS
// RUN: stepwell-opt --version | FileCheck %s --check-prefix=VERSION
// RUN: not stepwell-opt --csee %s 2>&1 | FileCheck %s --check-prefix=PASS
// RUN: not stepwell-opt --canonicalize=max-iteration=3 %s 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not stepwell-opt --stepwell-dce=all=1 %s 2>&1 | FileCheck %s --check-prefix=PYTHON-OPTION
// RUN: not stepwell-opt --pass-pipeline="builtin.module(affine-loop-coalescing)" %s 2>&1 | FileCheck %s --check-prefix=ANCHOR
// RUN: not stepwell-opt --pass-pipeline="func.func(cse)" %s 2>&1 | FileCheck %s --check-prefix=ROOT
// RUN: not stepwell-opt --compile-to=nowhere %s 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not stepwell-opt %t.no-such-file 2>&1 | FileCheck %s --check-prefix=FILE

// HELP: USAGE: stepwell-opt [options]
// HELP: --split-input-file[=<marker>]
// LIST: Passes:
// LIST: --canonicalize {{.*}}- Canonicalize operations
// LIST: --max-iterations=<long>
// LIST: --stepwell-dce {{.*}}- Drop ops whose results are unused
// LIST: Pass Pipelines:
// DIALECTS: Available Dialects: acc,{{.*}},stepwell,tensor
// VERSION: Stepwell {{.*}} MLIR 22.1.8

// PASS: Unknown command line argument '--csee'.  Try: 'stepwell-opt --help'
// PASS-NEXT: stepwell-opt: Did you mean '--cse'?
// OPTION: no such option max-iteration
// PYTHON-OPTION: pass 'stepwell-dce' has no option 'all' (it has none)
// ANCHOR: Can't add pass '{{.*}}' restricted to 'func.func' on a PassManager intended to run on 'builtin.module', did you intend to nest?
// ROOT: can't run 'func.func' pass manager on 'builtin.module' op
// PHASE: there is no phase 'nowhere'
// FILE: cannot open input file '{{.*}}no-such-file': No such file or directory
