"""The benchmark harness: measures models and kernels here and in other systems, in turns on the same cores.

`python -m stepwell.bench` and `stepwell-bench` run it; docs/benchmarks.md describes the method.
"""
