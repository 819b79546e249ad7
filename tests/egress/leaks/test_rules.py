"""The built-in rules and custom rules."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import uuid
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.egress.leaks.examples import example_of, shapes
from tests.tiers import examples
from tools.mutate_rules import breaks_of, is_found, is_noticed
from wasmrt.core.errors import ConfigurationError
from wasmrt.egress.leaks import LeakDetector, check_rule, load_custom_rules
from wasmrt.egress.leaks._keywords import FirstLook, map_keywords
from wasmrt.egress.leaks._rule_sets import BUILT, RULE_FOLDER, builtin_rules

ROOT = Path(__file__).parents[3]
RULES = builtin_rules()
DETECTOR = LeakDetector()


def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_rules", ROOT / "tools/build_rules.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_rules_match_their_source_files() -> None:
    sources = builder().source_rules()
    assert (RULE_FOLDER / BUILT).read_text("utf-8") == builder().built(sources), "run python tools/build_rules.py"
    assert tuple(RULES) == sources
    assert RULES.keywords == map_keywords(sources)


def first_look() -> FirstLook:
    return FirstLook(*RULES.literals)


@pytest.mark.ci("slow")
def test_the_first_short_text_has_the_same_matches_as_later_ones() -> None:
    missed = [rule.id for rule in RULES if first_look().rules_out(f"- {example_of(rule)}".encode())]
    assert missed == []
    assert first_look().rules_out(b"The quick brown fox jumps over the lazy dog.")


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_every_keyword_contains_one_of_its_literals(data: st.DataObject) -> None:
    keyword = data.draw(st.sampled_from(sorted(RULES.keywords)))
    text = data.draw(st.from_regex(re.compile(keyword.encode("latin-1")), fullmatch=True))
    assert not first_look().rules_out(b"~ " + text + b" ~")


FIRST_SCAN = """
import sys
from wasmrt.egress.leaks import LeakDetector
assert not LeakDetector().scan("hello, clean world!!")
print(sorted({"re2", "tomllib", "hashlib", "hyperscan"} & set(sys.modules)))
"""


def test_the_first_scan_of_a_short_clean_text_does_not_load_re2(unmeasured: None) -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_SCAN], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_there_are_enough_rules_and_each_has_a_source_and_a_provider() -> None:
    assert len(RULES) >= 150
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert all(len(rule.source) > 15 and rule.provider and "\n" not in rule.source for rule in RULES)


def test_every_rule_has_shapes_that_do_not_depend_on_its_expression() -> None:
    assert shapes().keys() == {rule.id for rule in RULES}
    assert all(shape.examples and shape.near_miss for shape in shapes().values())


def test_every_rule_finds_its_examples_but_not_its_near_misses() -> None:
    missed, mistaken = [], []
    for rule in RULES:
        check_rule(rule)
        missed += [(rule.id, text) for text in shapes()[rule.id].examples if not is_found(rule, text)]
        mistaken += [(rule.id, text) for text in [shapes()[rule.id].near_miss] if is_found(rule, text)]
    assert missed == []
    assert mistaken == []


@pytest.mark.ci("slow")
def test_the_examples_detect_every_broken_prefix_name_and_keyword() -> None:
    unnoticed = []
    for rule in RULES:
        breaks = list(breaks_of(rule))
        assert breaks, rule.id
        unnoticed += [(rule.id, broken.change) for broken in breaks if not is_noticed(broken)]
    assert unnoticed == []


def test_a_broken_letter_is_the_second_of_its_run() -> None:
    rule = next(rule for rule in RULES if rule.id == "airtable-token")
    assert [broken.change for broken in breaks_of(rule)] == [f"token {rule.token.replace('pat', 'pqt', 1)}"]


def test_the_file_of_shapes_contains_no_token() -> None:
    text = Path(__file__).with_name("shapes.toml").read_text("utf-8")
    assert [match.rule for match in DETECTOR.scan(text).matches] == []


def test_no_rule_finds_a_masked_example() -> None:
    found = []
    for rule in RULES:
        for substitute in ("x", "*"):
            masked = "".join(substitute if c.isalnum() else c for c in example_of(rule))
            found += [(rule.id, masked) for match in DETECTOR.scan(masked).matches if match.rule == rule.id]
    assert found == []


def test_every_example_is_found_among_all_rules() -> None:
    texts = [(rule.id, text) for rule in RULES for text in shapes()[rule.id].examples]
    missed = [(rule_id, text) for rule_id, text in texts if not DETECTOR.scan(f"\n\n{text}\n").matches]
    assert missed == []


HEX = "0123456789abcdef"


def innocents() -> dict[str, str]:
    random = Random(4)
    sha1, sha256, md5 = ("".join(random.choices(HEX, k=n)) for n in (40, 64, 32))
    base64 = "".join(random.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/", k=86)) + "=="
    return {
        "commit id": f"commit {sha1}\nAuthor: somebody",
        "checksum": f"sha256: {sha256}  wheel.whl\nmd5 = {md5}",
        "image digest": f"image@sha256:{sha256}",
        "package lock": f'"integrity": "sha512-{base64}",\n"resolved": "https://registry.example/x.tgz#{sha1}"',
        "poetry lock": f'{{file = "a.whl", hash = "sha256:{sha256}"}}',
        "uuid": f'"id": "{uuid.UUID(int=random.getrandbits(128))}", "request_id": "{uuid.UUID(int=9)}"',
        "environment variable": 'token = os.environ["TOKEN"]\nkey: ${API_KEY}\npassword = "{{ vault.password }}"',
        "placeholder": 'api_key = "your-api-key-here"\nsecret: <SECRET>\ntoken = "xxxxxxxxxxxxxxxxxxxx"',
        "documentation": "AKIA" + "IOSFODNN7" + "EXAMPLE",
        "public key": "-----BEGIN PUBLIC KEY-----\n" + base64 + "\n-----END PUBLIC KEY-----",
        "certificate": "-----BEGIN CERTIFICATE-----\n" + base64 + "\n-----END CERTIFICATE-----",
        "type annotation": "def f(token: Optional[str] = None, secret_key: bytes = b'') -> PrivateKeyTypes2: ...",
        "function call": "password = get_password(user1, realm2)\nself.token = self.tokens[index3]",
        "manual's URL": "postgres://user:password@host:5432/db and https://user:pass@example.com/",
        "header in prose": "Send it as Authorization: Bearer <token>, or as `Authorization: Bearer $TOKEN`.",
        "curl in prose": "curl -u user:password https://example.com; curl -u $USER:$PASS https://example.com",
        "package name": "com.fasterxml.jackson.core:jackson-databind:2.15.2 and sk-learn, sk-image-0.21",
        "data uri": "data:image/png;base64," + base64 * 3,
        "next page": f'"nextPageToken": "{md5}", "continuation_token": "{sha1}"',
        "css": ".ui.visible.right.sidebar~.pusher{transform:translate3d(0,0,0)} .key-frame-1{top:0}",
    }


@pytest.mark.parametrize(("kind", "text"), innocents().items())
def test_known_false_positives_are_not_found(kind: str, text: str) -> None:
    assert DETECTOR.scan(text).matches == ()


ACME_KEY = "acme_" + "0a1b2c3d" * 3
OWN = """
provider = "Acme"
[[rules]]
id = "acme-key"
source = "Acme handbook, page 4"
token = 'acme_[0-9a-f]{24}'
matching = ["ACME-KEY"]
not_matching = ["acme_123", "acme_handbook"]
""".replace("ACME-KEY", ACME_KEY)


def test_custom_rules_are_added_to_the_built_in_ones() -> None:
    rules = load_custom_rules(OWN)
    detector = LeakDetector(rules=rules)
    assert detector.scan(f"the key {ACME_KEY}.").matches[0].rule == "acme-key"
    assert len(detector.rules) == len(RULES) + 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("[0-9a-f]{24}", "(?=x)[0-9a-f]{24}"), "linear-time"),
        (("[0-9a-f]{24}", r"([0-9a-f])\1{24}"), "linear-time"),
        (("token = ", "tokn = "), "unknown key"),
        (("'acme_", "'a"), "fewer than three"),
        (('"acme_123", ', f'"{ACME_KEY}", '), 'matches example 1 of "not_matching"'),
        (('not_matching = ["acme_123", "acme_handbook"]', ""), "no false positive"),
        (("\nmatching = ", "\n# matching = "), "no example"),
        ((f'["{ACME_KEY}"]', f'["{ACME_KEY}", "acme_handbook"]'), "does not match example 2"),
        (("{24}", "{24}' \ncheck = 'jwt"), "does not match example 1"),
        (("{24}", "{24}' \ncheck = 'magic"), "unknown check"),
        (("{24}'", "{24}' \nreach = 999999"), "reach"),
        (('source = "Acme handbook, page 4"', "source = 4"), "type str"),
        (("id = ", "# id = "), "required"),
        (("[[rules]]", "[rules]"), "list of tables"),
        (("[[rules]]", "[[rules"), "not TOML"),
    ],
)
def test_an_invalid_rule_is_refused_with_the_reason(change: tuple[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        load_custom_rules(OWN.replace(*change))


def test_a_custom_rule_cannot_have_the_id_of_another() -> None:
    with pytest.raises(ConfigurationError, match="two rules"):
        LeakDetector(rules=load_custom_rules(OWN.replace("acme-key", "jwt")))


def test_a_rule_file_is_bounded() -> None:
    with pytest.raises(ConfigurationError, match="bytes"):
        load_custom_rules("#" * 300_000)


def flooded(size: int, seed: int) -> str:
    random = Random(seed)
    starts = [example_of(rule)[: random.randint(3, 9)] for rule in RULES]
    return "".join(random.choices(starts, k=size))


@pytest.mark.parametrize("seed", range(11, 15))
def test_a_flood_of_keywords_does_not_hide_a_token(seed: int) -> None:
    token = example_of(next(r for r in RULES if r.id == "github-pat")).strip()
    assert any(m.rule == "github-pat" for m in DETECTOR.scan(f"{flooded(20_000, seed)} {token}").matches)
    longer = f"{flooded(60_000, seed)} {token}"
    place = len(longer) - len(token)
    covering = {m.rule for m in DETECTOR.scan(longer).matches if m.start <= place < m.end}
    assert covering & {"github-pat", "scan-budget-exceeded"}  # found, or reported as not scanned
    assert DETECTOR.scan(token).matches


def test_every_token_in_a_flood_of_false_positives_is_found_anywhere() -> None:
    starts = [example_of(rule).strip()[:7] for rule in RULES if rule.token]
    flood = (" ".join(starts) + " ") * (400_000 // (8 * len(starts)))
    token = example_of(next(r for r in RULES if r.id == "github-pat")).strip()
    for edge in (0, 4096, 65_536, 131_072, 200_000):
        for place in (edge, max(0, edge - len(token) // 2), max(0, edge - len(token) - 1)):
            text = f"{flood[:place]} {token} {flood[place:]}"
            found = [(m.start, m.end) for m in DETECTOR.scan(text).matches if m.rule == "github-pat"]
            assert found == [(place + 1, place + 1 + len(token))]
