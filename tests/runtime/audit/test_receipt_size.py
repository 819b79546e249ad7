"""The length limit of a receipt's line, and the parts that are dropped first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.runtime.audit.conftest import receipt
from wasmrt.core.limits import MAX_RECEIPT_BYTES
from wasmrt.core.model import Decision, Reason, Usage
from wasmrt.runtime.audit import Approval, Receipt


def test_decisions_beyond_the_receipt_limit_are_omitted_and_counted() -> None:
    decision = Decision(False, Reason.LEAK, "x" * (MAX_RECEIPT_BYTES // 2))
    content = receipt(decisions=(decision,) * 3, decisions_dropped=2).content()
    told = json.loads(b"{%b}" % content)
    assert (told["decisions"], told["decisions_dropped"]) == ([], 5)
    assert len(content) < 2000


def padded(size: int, **fields: Any) -> Receipt:
    """A receipt whose line has the given length before anything is dropped; its username pads the line."""
    short = receipt(user="", **fields)._format_content(fields.get("decisions", ()), 0)
    return receipt(user="u" * (size - len(short)), **fields)


def test_a_receipt_over_the_length_limit_loses_only_decisions() -> None:
    decisions = (Decision(False, Reason.LEAK, "x"),)
    whole = padded(MAX_RECEIPT_BYTES, decisions=decisions).content()
    told = json.loads(b"{%b}" % whole)
    assert (len(whole), len(told["decisions"]), told["decisions_dropped"]) == (MAX_RECEIPT_BYTES, 1, 0)
    told = json.loads(b"{%b}" % padded(MAX_RECEIPT_BYTES + 1, decisions=decisions).content())
    assert (told["decisions"], told["decisions_dropped"], len(told["user"]) > 256) == ([], 1, True)


def test_long_texts_of_a_receipt_are_truncated_and_counted() -> None:
    whole = padded(MAX_RECEIPT_BYTES).content()
    assert len(whole) == MAX_RECEIPT_BYTES
    decisions = (Decision(False, Reason.LEAK, "x"),) * 3
    approval = Approval("token", "b" * 1000, "once")
    long = receipt(
        user="u" * 2 * MAX_RECEIPT_BYTES, decisions=decisions, decisions_dropped=4, approval=approval,
        chain=("one", "c" * 1000), effects=("network", "e" * 1000),
    )  # fmt: skip
    told = json.loads(b"{%b}" % long.content())
    assert (told["user"], told["decisions"], told["decisions_dropped"]) == ("u" * 256, [], 7)
    assert told["approval"] == {"how": "token", "by": "b" * 256, "scope": "once"}
    assert (told["chain"], told["effects"]) == (["one", "c" * 256], ["network", "e" * 256])
    assert json.loads(b"{%b}" % padded(MAX_RECEIPT_BYTES + 1).content())["user"] == "u" * 256


@pytest.mark.parametrize("seconds", [0.0, 0.000001, 0.25, 0.999999, 1.0, 1.000001, 59.5])
def test_seconds_are_recorded_to_the_microsecond(seconds: float) -> None:
    told = json.loads(b"{%b}" % receipt(usage=Usage(wall_seconds=seconds)).content())
    assert told["usage"]["wall_seconds"] == seconds


def test_a_receipt_without_details_is_marked() -> None:
    told = json.loads(b"{%b}" % Receipt().content())
    assert not any(value for name, value in told.items() if name not in ("type", "outcome", "usage"))
    assert (told["outcome"], set(told["usage"].values())) == ("ok", {0})
