"""The share of other scanners' token formats that the leak detector finds.

    python -m benches.bench_recall FOLDER [--missed]

FOLDER contains the rule files of other scanners, which are not part of this project: see `_foreign_rules.read_rules`.
Tokens are drawn from the expressions of the rules, and placed in lines of a configuration, of a request and of a
program. A rule counts by the share of its tokens that are found. Formats of well-known vendors are also counted alone.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from benches._foreign_rules import ForeignRule, draw, read_rules
from wasmrt.egress.leaks import LeakDetector

CORE = frozenset((
    "airtable", "anthropic", "asana", "atlassian", "aws", "azure", "cloudflare", "databricks", "datadog",
    "digitalocean", "discord", "docker", "dropbox", "fastly", "figma", "gcp", "github", "gitlab", "google", "grafana",
    "heroku", "hubspot", "huggingface", "linear", "mailchimp", "mailgun", "newrelic", "notion", "npm", "okta",
    "openai", "postman", "pypi", "sendgrid", "sentry", "shopify", "slack", "stripe", "telegram", "twilio",
))  # fmt: skip
TOKENS = 8
LEAST_CHARS = 16
LINES = (
    "{UPPER}_API_KEY={token}",
    '{{"{name}_token": "{token}"}}',
    "{name}:\n  api_key: {token}\n",
    "X-{Title}-Token: {token}",
    'const {name}Secret = "{token}";',
)
DETECTOR = LeakDetector()


def recall(rule: ForeignRule) -> float:
    """Return the share of a rule's tokens that are found, in all lines."""
    random, found = Random(rule.id), 0
    for _ in range(TOKENS):
        token = draw(rule.secret, random).strip()
        found += sum(_is_found(token, text) for text in _lines(rule, token))
    return found / (TOKENS * len(LINES))


def _lines(rule: ForeignRule, token: str) -> Iterator[str]:
    name = re.sub(r"\W+", "_", rule.vendor.lower())
    for line in LINES:
        yield line.format(name=name, UPPER=name.upper(), Title=name.title().replace("_", "-"), token=token)


def _is_found(token: str, text: str) -> bool:
    at = text.find(token)
    return any(match.start < at + len(token) and match.end > at for match in DETECTOR.scan(text).matches)


def is_token(rule: ForeignRule) -> bool:
    """Return whether a rule is for a random token, and not for an identifier, an address, a password or a key file."""
    random = Random(rule.id)
    texts = [draw(rule.secret, random) for _ in range(TOKENS)]
    return all(len(text) >= LEAST_CHARS and not re.search(r"\s|://|-----BEGIN|[{}<>]", text) for text in texts)


def is_core(rule: ForeignRule) -> bool:
    """Return whether the rule is for one of the vendors in `CORE`."""
    vendor = re.sub(r"\W|_", "", rule.vendor.lower())
    return any(vendor.startswith(name) for name in CORE)


def _mean(shares: Iterable[float]) -> str:
    values = list(shares)
    return f"{sum(values) / len(values):6.1%} of {len(values):4}" if values else "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--missed", action="store_true", help="list the formats of which less than half is found")
    arguments = parser.parse_args()
    shares: dict[str, dict[ForeignRule, float]] = defaultdict(dict)
    for rule in filter(is_token, read_rules(arguments.folder)):
        shares[rule.scanner][rule] = recall(rule)
    everything = {rule: share for found in shares.values() for rule, share in found.items()}
    for scanner, found in (*shares.items(), ("all", everything)):
        core = (share for rule, share in found.items() if is_core(rule))
        print(f"{scanner:>15}: {_mean(found.values())}, core {_mean(core)}")
    if arguments.missed:
        for rule, share in sorted(everything.items(), key=lambda item: (not is_core(item[0]), item[0].vendor)):
            if share < 0.5:
                example = draw(rule.secret, Random(rule.id))[:80]
                print(f"{'core ' if is_core(rule) else ''}{rule.scanner} {rule.id}: {share:.0%} {example!r}")


if __name__ == "__main__":
    main()
