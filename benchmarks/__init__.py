"""Benchmarks against Apache Hudi, Delta and plain Spark, side by side in one run (`--help`)."""
