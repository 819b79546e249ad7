"""Find secrets: known values in many encodings, and unknown values by their format.

The detector reads rule files, but uses no network and no clock. It only reports matches and suggests actions; the
caller performs the actions.
"""

from __future__ import annotations

from wasmrt.egress.leaks._detector import LeakDetector, WatchedSecrets
from wasmrt.egress.leaks._linear import ExpressionError, compile_text_pattern
from wasmrt.egress.leaks._model import (
    DECODE_LIMIT_RULE,
    SCAN_BUDGET_RULE,
    SECRET_RULE,
    Action,
    Direction,
    LeakMatch,
    LeakReport,
    Severity,
    cut_out,
)
from wasmrt.egress.leaks._rule_sets import check_rule, load_custom_rules, read_rule_file
from wasmrt.egress.leaks._rules import Rule
from wasmrt.egress.leaks._scanner import LeakScanner, Overrides
from wasmrt.egress.leaks._streaming import StreamingRedactor

__all__ = [
    "DECODE_LIMIT_RULE", "SCAN_BUDGET_RULE", "SECRET_RULE", "Action", "Direction", "ExpressionError", "LeakDetector",
    "LeakMatch", "LeakReport", "LeakScanner", "Overrides", "Rule", "Severity", "StreamingRedactor", "WatchedSecrets",
    "check_rule", "compile_text_pattern", "cut_out", "load_custom_rules", "read_rule_file",
]  # fmt: skip
