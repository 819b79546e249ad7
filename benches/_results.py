"""RESULTS.md: the machine, each question with its target and result, and all tables."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import timeit
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benches._measure import Line, Report, Table

_PACKAGES = (
    "wasmrt",
    "wasmtime",
    "extism",
    "extism-sys",
    "httpx",
    "jsonschema-rs",
    "google-re2",
    "hyperscan",
    "limits",
)
_BEFORE = tomllib.loads(Path(__file__).with_name("before.toml").read_text())


def markdown(report: Report, texts: list[tuple[str, str]], *, quick: bool) -> str:
    """Return the complete page; `texts` are the outputs of benches with their own output format."""
    wanted = [line for line in report.lines if line.target is not None]
    others = [line for line in report.lines if line.target is None]
    parts = [
        "# Results",
        "Written by `python -m benches`" + (" --quick" if quick else "") + "; never edited by hand. "
        "Every ratio is of medians of one run, in which the compared ways took turns. Absolute times do not carry over "
        "to other machines, and on a busy one the ratio of the tenth percentiles says more.",
        "![Median time of one call](chart.svg)",
        _machine(),
        "## What must be shown",
        _asked(wanted, before=True),
        _verdict(wanted),
        "## Restated, or worse than before the redraw",
        "\n".join(f"- **{what}**: {why}" for what, why in _BEFORE["why"].items()),
        "## Beside it",
        _asked(others),
    ]
    if report.skipped:
        parts += ["## Left out", "\n".join(f"- {reason}" for reason in report.skipped)]
    parts += [f"## {table.title}\n\n{_table(table)}" for table in report.tables]
    parts += [f"## {title}\n\n```text\n{text}\n```" for title, text in texts]
    return "\n\n".join(parts) + "\n"


def _machine() -> str:
    rows = [
        ["when", datetime.datetime.now(datetime.UTC).date().isoformat()],
        ["processor", f"{_processor()}, {os.cpu_count()} cores"],
        ["load when it ended (1, 5, 15 minutes)", ", ".join(f"{load:.1f}" for load in os.getloadavg())],
        ["system", f"{platform.system()} {platform.release().split('-')[0]}"],
        ["Python", platform.python_version()],
        ["1,000 calls of an empty function", _empty_calls()],
        ["C compiler", _compiler()],
        *([name, _version(name)] for name in _PACKAGES),
    ]
    return _table(Table("", ["machine and versions", ""], rows))


def _empty_calls() -> str:
    """Return the speed of the interpreter, because builds of the same version differ."""
    best = min(timeit.repeat("call()", "def call(): pass", number=1000, repeat=200))
    return f"{best * 1e6:.0f} us"


def _asked(lines: list[Line], *, before: bool = False) -> str:
    """Return a table of questions, with `before` also with the earlier results."""
    rows = []
    for line in lines:
        target = "" if line.target is None else f"{'>=' if line.at_least else '<='} {line.target:g}"
        low = "" if line.low is None else f"{line.low:.3g}"
        met = {None: "", True: "yes", False: "**no**"}[line.met]
        then = [f"{_BEFORE['seen'].get(line.question, '')}"] if before else []
        rows.append(
            [line.question + (f" ({line.note})" if line.note else ""), target, *then, f"{line.seen:.3g}", low, met]
        )
    columns = ["question", "target", *(["before"] if before else []), "seen", "of tenth percentiles", "met"]
    return _table(Table("", columns, rows))


def _verdict(lines: list[Line]) -> str:
    missed = [line for line in lines if line.met is False]
    if not missed:
        return f"All {len(lines)} lines are met."
    said = "\n".join(f"- {line.question}: {line.seen:.3g}, wanted {line.target:g}" for line in missed)
    return f"Not met, {len(missed)} of {len(lines)}:\n\n{said}"


def _table(table: Table) -> str:
    rows = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _compiler() -> str:
    try:
        told = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "none"
    return told.splitlines()[0]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
