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

bench *args:
    python -m benches --write {{args}}
