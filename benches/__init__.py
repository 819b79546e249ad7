"""What wasmrt costs, beside what it could cost at least: `python -m benches` runs everything and writes RESULTS.md."""
