# The commands that CI runs.

default: test

# Everything that needs no test: lint, format, types, import contracts
check: lint types arch wording

lint:
    ruff check .
    ruff format --check .

types:
    mypy
    mypy tests/agent/registry/test_contract.py

arch:
    lint-imports

# Fail if there is more unclear phrasing than tools/wording/markers.toml allows
wording *args:
    python -m tools.wording {{args}}

test *args:
    python -m pytest {{args}}

# The tests with coverage, and its floors, which only all of them reach: `just cov tests/egress/rates` tells what it covered, and fails
cov *args:
    python -m coverage run -m pytest {{args}}
    python tools/coverage_gate.py

# The parts of docs/ that are made from the code
docs:
    python -m docs.generate

# The documentation site
docs-site folder="site":
    python -m docs.site {{folder}}

bench *args:
    python -m benches --write {{args}}

# All that is asked of a change, as CI runs it, in about 40 minutes
ci:
    .ci/run

# Build a release of the last commit twice, compare the builds, and write an SBOM: `just release out`
release folder:
    .ci/release build {{folder}}

# Pin the development environment anew where pyproject.toml asks for it; `just lock --upgrade`: everything
lock *args:
    uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "just lock" --all-extras --group dev pyproject.toml -o requirements-dev.txt {{args}}

# Pin the programs of others that MCP is tried with anew: what package.json and the .in files of tests/interop/mcp_peers name
lock-peers:
    cd tests/interop/mcp_peers && npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund
    cd tests/interop/mcp_peers && for name in node programs ray sdk-1.23 sdk-1.30; do uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "just lock-peers" $name.in -o $name.txt; done

# Fail where a commit's subject has more than 72 characters: `just commits v0.1.0..`
commits +range="-n 20":
    @subjects="$(git log --format='%h %s' {{range}})" && ! printf '%s\n' "$subjects" | grep -E '^[0-9a-f]+ .{73}'

# 20,000 generated and mutated components through install and prepare: about ten minutes
fuzz *args:
    python tools/fuzz.py {{args}}

# Small mistakes in the code, one at a time: does a test find each? `just mutate wasmrt/runtime/call`; all of it takes over an hour
mutate *args:
    python -m tools.mutation {{args}}
