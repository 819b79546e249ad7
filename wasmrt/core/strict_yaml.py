"""Strict YAML: one document of block mappings, lists and strings, read with PyYAML's safe loader.

SECURITY: the text is untrusted. Anchors, aliases, tags, merge keys, directives, flow mappings, further documents and
duplicate keys are refused, because YAML parsers differ on them or they can expand without limit. Values are built from
parser events, so no constructor of PyYAML runs and a plain scalar never becomes a number, date or boolean.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_MAX_KEY_CHARS = 128
_MAX_PROBLEMS = 32
_HINTS = {"mapping values are not allowed here": 'a value that contains a colon must be in quotes ("...")'}
"""Clearer wording for messages of PyYAML."""


class YamlProblem(NamedTuple):
    """A refused part of a YAML text, with its line number, counted from 1."""

    line: int
    problem: str


class _NestingError(Exception):
    """The text nests deeper than the bound."""


def read_yaml(
    text: str, *, max_bytes: int, max_depth: int, nulls: bool = False
) -> tuple[dict[str, Any] | list[Any] | str | None, list[YamlProblem]]:
    """Return the value of a YAML document, and all problems found in it.

    The value consists of dicts, lists and strings; with `nulls`, a plain `null`, `~` or empty scalar is None. The value
    is None if the text is over a bound or has a syntax error. Otherwise a refused part is read as far as possible, so
    that the caller can report its own problems too; the caller must not use the value if there are problems.

    The size is checked before parsing, and the nesting before the parser enters the next level.
    """
    if len(text.encode("utf-8", "replace")) > max_bytes:
        return None, [YamlProblem(1, f"the text has more than {max_bytes:,} bytes")]
    import yaml

    loader = None
    reader = _EventReader(max_depth, nulls)
    try:
        loader = yaml.SafeLoader(text)
        value = reader.read_document(loader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        reader.report(line, f"character {error.character:#x} is not allowed", fatal=True)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = error.problem or error.context or "invalid YAML"
        reader.report(mark.line + 1 if mark else 1, _HINTS.get(message, message), fatal=True)
    except (ValueError, OverflowError):  # PyYAML passes the number of an escape to chr(), and of a directive to int()
        reader.report(loader.line + 1 if loader else 1, "a number is too large", fatal=True)
    except _NestingError:
        reader.report(loader.line + 1 if loader else 1, f"nesting is over {max_depth} levels deep", fatal=True)
    else:
        return value, reader.problems
    return None, reader.problems


class _EventReader:
    """Builds a value from parser events, and collects the first problem of each line."""

    def __init__(self, max_depth: int, nulls: bool) -> None:
        self.problems: list[YamlProblem] = []
        self._max_depth = max_depth
        self._nulls = nulls

    def report(self, line: int, problem: str, *, fatal: bool = False) -> None:
        known = any(line == each.line for each in self.problems)
        if fatal or not (known or len(self.problems) >= _MAX_PROBLEMS):
            self.problems.append(YamlProblem(line, problem))

    def read_document(self, loader: Any) -> Any:
        import yaml

        value: Any = None if self._nulls else ""
        documents = 0
        while (event := loader.get_event()) is not None:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if event.version or event.tags:
                    self._forbid(event, "a directive")
                if documents > 1:
                    self._forbid(event, "another document")
                    break
            elif isinstance(event, yaml.NodeEvent):
                value = self._read_node(loader, event, 1)
        return value

    def _read_node(self, loader: Any, event: Any, depth: int) -> Any:
        import yaml

        if isinstance(event, yaml.AliasEvent):
            self._forbid(event, "an alias")
            return ""
        if event.anchor is not None:
            self._forbid(event, "an anchor")
        if event.tag is not None:
            self._forbid(event, "a tag")
        if isinstance(event, yaml.ScalarEvent):
            return self._read_scalar(event)
        if depth > self._max_depth:
            raise _NestingError
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(event := loader.get_event(), yaml.SequenceEndEvent):
                items.append(self._read_node(loader, event, depth + 1))
            return items
        if event.flow_style:
            self._forbid(event, "a flow mapping ({...})")
        entries: dict[str, Any] = {}
        folded: dict[str, str] = {}  # the keys by their case-folded forms
        while not isinstance(event := loader.get_event(), yaml.MappingEndEvent):
            key = self._read_node(loader, event, depth + 1)
            name = self._check_key(event, key, folded)
            value = self._read_node(loader, loader.get_event(), depth + 1)
            if name is not None:
                entries[name] = value
        return entries

    def _read_scalar(self, event: Any) -> str | None:
        if self._nulls and event.style is None and event.value in ("", "~", "null"):
            return None
        try:  # a JSON string may spell one character as two escaped surrogates
            return str(event.value).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            self._forbid(event, "an escape that is not a character")
            return ""

    def _check_key(self, event: Any, key: object, folded: dict[str, str]) -> str | None:
        """Return the key and add it to `folded`, or report it and return None."""
        if not isinstance(key, str):
            self._forbid(event, "a key that is not a string")
        elif not 0 < len(key) <= _MAX_KEY_CHARS or not key.isprintable():
            self._forbid(event, f"a key that is empty, not printable or over {_MAX_KEY_CHARS} characters long")
        elif key == "<<":
            self._forbid(event, "a merge key (<<)")
        elif twin := folded.get(key.casefold()):
            differs = "" if key == twin else f" differs from {twin} only in case"
            self.report(event.start_mark.line + 1, f"duplicate key: {key}{differs}")
        else:
            folded[key.casefold()] = key
            return key
        return None

    def _forbid(self, event: Any, part: str) -> None:
        self.report(event.start_mark.line + 1, f"{part} is not allowed")
