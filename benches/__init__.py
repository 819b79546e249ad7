"""The cost of wasmrt, compared with the least possible cost. `python -m benches` writes RESULTS.md."""
