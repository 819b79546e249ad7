# The same commands that the tests and CI run.

default: test

lint:
    ruff check .
    ruff format --check .

types:
    mypy

arch:
    lint-imports

test *args:
    python -m pytest {{args}}

# The tests with coverage, and its floors
cov *args:
    python -m coverage run -m pytest {{args}}
    python tools/coverage_gate.py

# The parts of docs/ that are made from the code
docs:
    python -m docs.generate

bench *args:
    python -m benches --write {{args}}

# 20,000 generated and mutated components through install and prepare: about ten minutes
fuzz *args:
    python tools/fuzz.py {{args}}
