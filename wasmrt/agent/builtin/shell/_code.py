"""Code of other languages on a command line: decide whether it can run without an approval.

The code is not interpreted. It is known to be harmless if it consists of listed names only; see `lists/programs.toml`.
"""

from __future__ import annotations

import ast
import re
from typing import TypeGuard

from wasmrt.agent.builtin.shell._lists import AWK_ASKS, CODE_WORDS, PYTHON_MODULES, PYTHON_NAMES
from wasmrt.agent.builtin.shell._words import UNKNOWN, to_words

_STRING = re.compile(r"'[^'\\\n]*'|\"[^\"\\\n]*(?:\\[nt\"][^\"\\\n]*)*\"")
_INTERPOLATION = re.compile(r"[#$@]\{|`|\$\(|\{\$")
_OPERATORS = re.compile(r"[\s\d.,+*/%()=<>!&?:;{}-]*")
_SUBSTITUTION = re.compile(r"\s*(?:s|tr|y)/((?:[^/\\\n]|\\.)*)/((?:[^/\\\n$@]|\\.|\$\d)*)/[gimsxr]*;?\s*")
_PATTERN_CODE = re.compile(r"\(\?\??\{|[$@][{(\w]")
_PRINTS = re.compile(r"\s*print(\s+if\s+/[\w\s.*^$-]*/)?;?\s*")
_TOKEN = re.compile(r"\w+|[^\w \t\f]")
_MAX_TOKENS = 4_096
_SED_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n[]|\\.|\[[^]/\\\n]+\])*/[IM]*)"
_SED_BODY = r"(?:(?!(?P=end))[^\\\n[]|\\.|\[(?:(?!(?P=end))[^]\\\n])+\])*"
_SED_COMMAND = re.compile(
    rf"[\s;{{}}]+|\#[^\n]*|(?:{_SED_ADDRESS}(?:\s*,\s*(?:{_SED_ADDRESS}|[+~]\d+))?)?[\s!]*(?:"
    r"\{|[dDgGhHnNpPxz=F](?=[\s;}]|\Z)|[qQlL]\s*\d*(?=[\s;}]|\Z)|[btT]\s*[\w.-]*(?=[\s;}]|\Z)|:\s*[\w.-]+"
    r"|[aic](?=[\s\\])(?:[^\\\n]|\\.)*|y/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/(?=[\s;}]|\Z)"
    rf"|s(?P<end>[/|#,:@!~%_]){_SED_BODY}(?P=end)(?:(?!(?P=end))[^\\\n]|\\.)*(?P=end)[gpiImM0-9]*(?=[\s;}}]|\Z))",
    re.DOTALL,
)
"""A command of a sed script that neither runs a program nor reads or writes a file."""
_NODES = (
    ast.Module, ast.Expr, ast.Expression, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If,
    ast.With, ast.withitem, ast.Pass, ast.Break, ast.Continue, ast.Import, ast.ImportFrom, ast.alias, ast.BoolOp,
    ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
    ast.comprehension, ast.Compare, ast.Call, ast.keyword, ast.FormattedValue, ast.JoinedStr, ast.Constant,
    ast.Attribute, ast.Subscript, ast.Starred, ast.Name, ast.List, ast.Tuple, ast.Slice, ast.Lambda, ast.arguments,
    ast.arg, ast.Assert, ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop, ast.NamedExpr,
)  # fmt: skip
_METHODS = to_words(
    "append extend get items keys values join split strip lstrip rstrip splitlines upper lower title replace "
    "startswith endswith format count index sort copy add union most_common read readline readlines decode encode "
    "isoformat strftime total_seconds date time now today utcnow group groups hexdigest year month day hour minute "
    "second exists isfile isdir basename dirname abspath splitext getsize major minor micro hex isdigit isalpha zfill "
    "ljust rjust center find pop insert buffer fieldnames elements bit_length real imag numerator denominator"
)


def is_known_sed(script: str) -> bool:
    """Return whether a script of sed is known to start no process and to read and write no file."""
    at = 0
    while at < len(script):
        found = _SED_COMMAND.match(script, at)
        if found is None:
            return False
        at = found.end()
    return True


def is_known_code(language: str, code: str) -> bool:
    """Return whether code is known to start no process, write no file and use no network."""
    if not UNKNOWN.isdisjoint(code):
        return False
    if re.fullmatch(r"(python|pypy)[0-9.]*|ipython", language):
        return _is_known_python(code)
    if language.endswith("awk"):
        return AWK_ASKS.search(code) is None
    if language == "perl" and _is_known_substitution(code):
        return True
    words = CODE_WORDS.get("node" if language == "nodejs" else language)
    return words is not None and _has_only(words, code)


def _has_only(words: list[str], code: str) -> bool:
    if any(_INTERPOLATION.search(text) for text in _STRING.findall(code)):
        return False
    rest = _STRING.sub(" ", code)
    names = re.compile(r"[A-Za-z_]\w*")
    return set(names.findall(rest)) <= set(words) and _OPERATORS.fullmatch(names.sub("", rest)) is not None


def _is_known_substitution(code: str) -> bool:
    found = _SUBSTITUTION.fullmatch(code)
    if found is None:
        return _PRINTS.fullmatch(code) is not None
    return _PATTERN_CODE.search(found.group(1)) is None


def _is_known_python(code: str) -> bool:
    # SECURITY: the parser is one C call that holds the GIL, for up to 6 us per token.
    if len(_TOKEN.findall(code)) > _MAX_TOKENS:
        return False
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    own = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    modules = _map_imported_names(nodes)
    opened = sum(isinstance(node, ast.Name) and node.id == "open" for node in nodes)
    if modules is None or own & modules.keys() or opened != sum(map(_calls_open, nodes)):
        return False
    return all(_is_known_node(node, own, modules) for node in nodes)


def _map_imported_names(nodes: list[ast.AST]) -> dict[str, str] | None:
    """Map each imported name to its module or member. The result is None if an import is unknown."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name not in PYTHON_MODULES:
                    return None
                found[each.asname or each.name] = each.name
        elif isinstance(node, ast.ImportFrom):
            members = PYTHON_MODULES.get(node.module or "")
            for each in node.names:
                if members is None or node.level or not ({each.name, "*"} & set(members)) or each.name in ("*", "path"):
                    return None
                found[each.asname or each.name] = ""
    return found


def _is_known_node(node: ast.AST, own: set[str], modules: dict[str, str]) -> bool:
    if not isinstance(node, _NODES):
        return False
    if isinstance(node, ast.Name):
        return not node.id.startswith("__") and (node.id in PYTHON_NAMES or node.id in own or node.id in modules)
    if isinstance(node, ast.Attribute):
        return isinstance(node.ctx, ast.Load) and _is_known_attribute(node, modules)
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load) or isinstance(node.value, ast.Name)
    return not _calls_open(node) or _reads_file(node)


def _calls_open(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"


def _is_known_attribute(node: ast.Attribute, modules: dict[str, str]) -> bool:
    if isinstance(node.value, ast.Name) and modules.get(node.value.id):
        members = PYTHON_MODULES[modules[node.value.id]]
        return node.attr in members or (members == ["*"] and not node.attr.startswith("_"))
    return node.attr in _METHODS


def _reads_file(call: ast.Call) -> bool:
    modes = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "mode")]
    known = all(isinstance(each, ast.Constant) and each.value in ("r", "rb", "rt") for each in modes)
    others = {each.arg for each in call.keywords} <= {"mode", "encoding", "errors", "newline"}
    return known and others and len(call.args) <= 2 and not any(isinstance(each, ast.Starred) for each in call.args)
