"""Count unclear phrasing, in markers per 1,000 words of each kind of text.

    python -m tools.wording                 the density of each kind
    python -m tools.wording --list message  every match in messages, with its place
    python -m tools.wording --subjects 100  the last 100 commit subjects as well

Exits with 1 if a kind is above its limit in markers.toml.
"""

from __future__ import annotations

import argparse
import sys

from tools.wording.texts import ROOT, commit_subjects, project_texts, scan


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.wording", description=__doc__.splitlines()[0])
    parser.add_argument("--list", metavar="KIND", help="print every match in this kind of text")
    parser.add_argument("--subjects", type=int, default=0, metavar="N", help="scan the last N commit subjects, too")
    options = parser.parse_args()
    texts = [*project_texts(ROOT), *commit_subjects(ROOT, options.subjects)]
    report = scan(texts)
    for match in report.matches:
        if match.text.kind == options.list:
            print(f"{match.text.place}: {match.found!r}: {match.instead}")
    print(f"{'kind':<10} {'markers':>7} {'words':>7} {'in 1,000':>8} {'limit':>6}")
    for kind, density in report.densities.items():
        count = sum(match.text.kind == kind for match in report.matches)
        print(f"{kind:<10} {count:>7} {report.words[kind]:>7} {density:>8.2f} {report.limits[kind]:>6.2f}")
    return 1 if report.above_limit() else 0


if __name__ == "__main__":
    sys.exit(main())
