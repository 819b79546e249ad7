"""Run generated and mutated components through the validation of `install` and through `prepare`.

python tools/fuzz.py                          20,000 components, about ten minutes
python tools/fuzz.py --count N --seed N       N components, with a different seed
python tools/fuzz.py --seed S --write N FILE  write component number N to a file, without running it

Each component must be accepted or refused with a typed error within its time bound, and must not crash the process.
Exits with 1 on a failure; the seed and the number reproduce the component.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.sandbox.fuzz.campaign import CampaignReport, run_campaign
from tests.sandbox.fuzz.components import Generator
from wasmrt.authoring.project import find_wasm_tools

COUNT, SEED = 20_000, 20_000
EVERY = 1_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--write", nargs=2, metavar=("N", "FILE"))
    given = parser.parse_args()
    if given.write:
        with TemporaryDirectory() as folder:
            Path(given.write[1]).write_bytes(Generator(given.seed, Path(folder)).make(int(given.write[0])).data)
        return 0
    started = time.monotonic()

    def progress(report: CampaignReport) -> None:
        if report.count % EVERY == 0:
            print(f"{report.count} in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)

    print(f"wasm-tools {find_wasm_tools().version_text}, seed {given.seed}")
    report = run_campaign(given.seed, range(given.count), progress)
    _print(report, time.monotonic() - started)
    return 1 if report.failures or report.slow else 0


def _print(report: CampaignReport, seconds: float) -> None:
    print(f"{report.count} components in {seconds:.0f} s; peak memory of the process {report.peak_kib // 1024} MiB")
    for title, counter in (("made by", report.kinds), ("install", report.installs), ("prepare", report.prepares)):
        print(f"{title}: " + ", ".join(f"{name} {count}" for name, count in counter.most_common()))
    for what, (longest, recipe) in report.slowest.items():
        print(f"slowest {what}: {longest:.3f} s ({recipe})")
    for line in (*report.slow, *report.failures):
        print(f"FAILED {line}")
    print(f"{len(report.failures)} failures, {len(report.slow)} over their bound")


if __name__ == "__main__":
    sys.exit(main())
