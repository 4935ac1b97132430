"""The benchmark harness: models and kernels here and in other systems, turn by turn on the same cores.

`python -m stepwell.bench` and `stepwell-bench` run it; docs/benchmarks.md says how.
"""
