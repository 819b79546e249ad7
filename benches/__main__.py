"""Run the benches of calls and requests, and write RESULTS.md and chart.svg into this folder.

    python -m benches [--quick]       --quick takes under two minutes, and writes nothing without --write

Each file of benches/ runs in a separate process, one after the other.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benches._chart import chart
from benches._measure import Line, Report
from benches._results import markdown

HERE = Path(__file__).parent
OURS = ("bench_call", "bench_registry", "bench_receipts", "bench_isolation", "bench_sizes", "bench_prepare")
_RATIO = re.compile(r"^(?P<what>.*?)\s*ratio (?P<seen>[\d.]+) \(target: (?:at most|under) (?P<target>[\d.]+)\)")
_TIMES = re.compile(r"^(?P<what>.*): .*, (?P<seen>[\d.]+)x$")
_TOLD = re.compile(r"MB/s|times clean|us \(wanted|wanted \d")


@dataclass(frozen=True, slots=True)
class Other:
    """A bench with its own output format."""

    title: str
    full: list[str]
    quick: list[str] | None


OTHERS = (
    Other("`wasmrt run` as a process", ["bench_start.py"], ["bench_start.py", "7"]),
    Other("`wasmrt list` and `run` with 10,000 tools", ["bench_list.py"], ["bench_list.py", "3"]),
    Other("A guarded request compared with bare httpx", ["bench_http.py"], ["bench_http.py"]),
    Other("`html_to_markdown` compared with trafilatura and markdownify", ["bench_web.py"], ["bench_web.py", "3"]),
    Other("The leak detector", ["-m", "pytest", "-q", "-s", "--benchmark-columns=median", "bench_leaks.py"],
          ["-m", "pytest", "-q", "-s", "-k", "clean", "--benchmark-columns=median", "bench_leaks.py"]),
    Other("A soak of 50,000 calls and attacks, and kills", ["bench_soak.py", "50000", "--kill-every", "20"], None),
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benches")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true", help="write the results of a --quick run too")
    options = parser.parse_args()
    report, texts = Report(), []
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        environ = os.environ | {"WASMRT_HOME": folder}
        for name in OURS:
            _add(report, _ours(name, options.quick, Path(folder), environ))
        for other in OTHERS:
            text = _other(other, options.quick, report, environ)
            if text:
                texts.append((other.title, text))
    print(f"took {time.monotonic() - started:.0f} s")
    if options.write or not options.quick:
        (HERE / "RESULTS.md").write_text(markdown(report, texts, quick=options.quick))
        if report.bars:
            (HERE / "chart.svg").write_text(_drawn(report))
    return int(any(" ended with " in reason for reason in report.skipped))


def _drawn(report: Report) -> str:
    return chart(
        "One call of a Rust tool: fresh store, from start to drop",
        "Median microseconds of one run, taken in turn; less is better. C does the least that such a call can be.",
        "wasmrt whole: schema check, rate limit, grant, leak scan, a receipt a call. Ratios carry over, times do not.",
        report.bars,
        cut=300.0,
    )


def _ours(name: str, quick: bool, folder: Path, environ: dict[str, str]) -> Report:
    found = folder / f"{name}.json"
    command = [sys.executable, "-m", f"benches.{name}", "--json", str(found), *(["--quick"] if quick else [])]
    print(f"\n== {name}", flush=True)
    done = subprocess.run(command, env=environ, cwd=HERE.parent, check=False)
    return Report.read(found) if found.is_file() else Report(skipped=[f"{name} ended with {done.returncode}"])


def _other(other: Other, quick: bool, report: Report, environ: dict[str, str]) -> str:
    arguments = other.quick if quick else other.full
    if arguments is None:
        report.skipped.append(f"{other.title}: skipped by --quick")
        return ""
    print(f"\n== {other.title}", flush=True)
    # The bench itself exits with 1 if a target is missed, which is reported below.
    done = subprocess.run(
        [sys.executable, *arguments], env=environ | {"PYTHONPATH": str(HERE.parent)}, cwd=HERE,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    print(done.stdout, end="", flush=True)
    lines = _lines(other, done.stdout)
    report.lines += lines
    if done.returncode not in {0, 1}:
        report.skipped.append(f"{other.title}: {' '.join(arguments)} ended with {done.returncode}")
    if "pytest" in arguments:
        return "\n".join(line.strip(" .") for line in done.stdout.splitlines() if _TOLD.search(line))
    return done.stdout.strip()


def _lines(other: Other, text: str) -> list[Line]:
    lines = []
    for row in text.splitlines():
        if found := _RATIO.match(row):
            what = found["what"] or "run echo, cached, over python -c 'import wasmtime'"
            command = re.sub(r"\s+10 tools.*", ", 10,000 tools installed over 10", what)
            lines.append(Line(f"wasmrt {command}", float(found["seen"]), float(found["target"])))
        elif found := _TIMES.match(row):
            many = found["what"].startswith("100 at once")
            question = "100 requests at once, over the slowest" if many else "guarded request over bare httpx, "
            question += "" if many else re.sub(r"\s+", " ", found["what"].strip())
            # A request is scanned completely before its first byte is sent.
            target = 2.0 if many or "1048576 bytes sent" in question else 1.3
            lines.append(Line(question, float(found["seen"]), target))
    return lines


def _add(report: Report, other: Report) -> None:
    report.lines += other.lines
    report.tables += other.tables
    report.skipped += [reason for reason in other.skipped if reason not in report.skipped]
    report.bars = report.bars or other.bars


if __name__ == "__main__":
    sys.exit(main())
