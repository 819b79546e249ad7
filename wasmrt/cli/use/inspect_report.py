"""The text report of `wasmrt inspect`: the facts that matter before an install, on one screen."""

from __future__ import annotations

import json
import textwrap
from shutil import get_terminal_size
from typing import Any

from wasmrt.cli.shared.output import format_size, print_message, show, show_section

_MAX_TOOLS = 8
_MAX_WIDTH = 120


def show_report(report: dict[str, Any]) -> None:
    """Print a short form of the report of `wasmrt inspect --json`."""
    number = f" version {report['version']}" if report["version"] else ""
    origin = "a file, granted nothing" if report["origin"] == "file" and not report["granted"][1:] else report["origin"]
    show(f"{report['name']}{number} ({origin}): {report['world']}, {format_size(report['size_bytes'])}")
    _show_origin(report)
    if len(report["versions"]) > 1:
        show_section("versions", [_format_version(version) for version in report["versions"]])
    if report["groups"]:
        _show_groups(report)
    else:
        _show_tools(report["tools"])
    if any(tool["schema_problem"] for tool in report["tools"]):
        print_message("it cannot be installed: models could not learn its parameters from this schema")
    for refused in report["not_callable"][:_MAX_TOOLS]:
        show(_wrap_text(f"not a tool: {refused['function'].partition(': ')[0]}: {refused['problem']}", 2))
    if len(report["not_callable"]) > _MAX_TOOLS:
        show(f"  not a tool: {len(report['not_callable']) - _MAX_TOOLS} more functions")
    if not report["groups"]:
        _show_capabilities(report["capabilities"])
    for kept in report["kept"]:
        line = f"{kept['to']}: {json.dumps(kept['entry'])}"
        show(_wrap_text(f"granted by {kept['by']} beyond the capability file, {kept['at']}: {line}", 0))
    for login in report["logins"]:
        show(_wrap_text(login, 0))
    for secret in report["missing_secrets"]:
        show(_wrap_text(f"{secret['problem']}; {secret['hint'] or 'set it again'}", 0))
    if "limits" in report:
        show_section(
            "limits", [_format_limit(name, row["limit"], row["to_start"]) for name, row in report["limits"].items()]
        )
    show("for more: --json shows the schemas, --wit all imports and exports")


def _show_origin(report: dict[str, Any]) -> None:
    if summary := _summarize(report["sidecar"] or {}):
        show(_wrap_text(summary, 0))
    show(f"digest: {report['digest']}")
    for warning in report["warnings"]:
        print_message(f"warning: {warning}")
    if report["installed_at"]:
        show(f"from: {report['source']}, {report['installed_at']}")
    if report["built_with"]:
        show(_wrap_text("built with: " + "; ".join(", ".join(values) for values in report["built_with"].values()), 0))


def _summarize(sidecar: dict[str, Any]) -> str:
    """Format the version, license, source and description of a capability file."""
    facts = [f"{key} {sidecar[key]}" for key in ("version", "license", "source") if sidecar.get(key)]
    description = " ".join(str(sidecar.get("description") or "").split())
    return ": ".join(filter(None, (", ".join(facts), description)))


def show_tool(tool: dict[str, Any]) -> None:
    """Print the report on one tool of a package."""
    notes = [note.replace("_", "-") for note, is_so in tool["annotations"].items() if is_so]
    show(f"{tool['name']}" + (f" ({', '.join(notes)})" if notes else ""))
    show(_wrap_text(" ".join(tool["description"].split()), 2, lines=12))
    show(_wrap_text(f"params: {_format_params(tool['schema'])}", 2, lines=12))
    for sentence in tool["may"]:
        show(_wrap_text(sentence, 2))
    for problem in tool["problems"]:
        show(_wrap_text(f"problem: {problem}", 2))
    for line in tool.get("prompt", "").splitlines():
        show(_wrap_text(line, 4, lines=20) if line.strip() else "")


def _show_groups(report: dict[str, Any]) -> None:
    """Print the tools of a package, grouped by kind and capabilities."""
    show(f"tools: {len(report['tools'])}, by what they {'request' if report['origin'] == 'file' else 'may do'}")
    admitted = {"allow": "without approval", "ask": "requires approval", "deny": "denied unless a rule allows it"}
    for group in report["groups"]:
        kind = ["writes" if group["writes"] else "only reads", admitted.get(group["permission"], group["permission"])]
        kind += ["hidden from models"] if group["hidden"] else []
        show(_wrap_text(f"{', '.join(kind)}: {', '.join(group['tools'])}", 2, lines=12))
        for sentence in group["may"] or ["may not do anything outside the sandbox"]:
            show(_wrap_text(sentence, 6))
    for tool in report["tools"]:
        for problem in tool["problems"][:1]:
            show(_wrap_text(f"problem of {tool['name']}: {problem}", 2, lines=1))


def _show_tools(tools: list[dict[str, Any]]) -> None:
    if len(tools) > _MAX_TOOLS:
        show(_wrap_text(f"tools: {', '.join(tool['name'] for tool in tools)}", 0, lines=6))
    else:
        show("tools:")
    for tool in tools:
        notes = ", ".join(note.replace("_", "-") for note, is_so in tool["annotations"].items() if is_so)
        if len(tools) <= _MAX_TOOLS:
            show(f"  {tool['name']}" + (f" ({notes})" if notes else ""))
            description = " ".join(tool["description"].split())
            if description:
                show(_wrap_text(description, 4))
            if ": func(" not in description:  # a signature already has the params
                show(_wrap_text(f"params: {_format_params(tool['schema'])}", 4))
        for problem in tool["problems"]:
            show(_wrap_text(f"problem of {tool['name']}: {problem}", 4))


def _format_params(schema: dict[str, Any]) -> str:
    """Format the parameters of a schema: `path: string, depth?: integer`."""
    properties = schema.get("properties")
    forms = [form for choice in ("oneOf", "anyOf") for form in schema.get(choice) or () if isinstance(form, dict)]
    if forms:
        return _format_union(schema, forms)
    if not isinstance(properties, dict) or not properties:
        return "none"
    required = schema.get("required", [])
    return ", ".join(
        f"{' '.join(name.split())}{'' if name in required else '?'}: {_format_kind(part)}"
        for name, part in properties.items()
    )


def _format_union(schema: dict[str, Any], forms: list[dict[str, Any]]) -> str:
    """Format alternative forms by the field that distinguishes them: `action is one of: create (title), list, ...`."""
    constants = [
        {name for name, part in _get_fields(form).items() if _find_constant(part) is not None} for form in forms
    ]
    tag = next(iter(sorted(set.intersection(*constants))), None)
    if tag is None:
        own = _format_params(schema | {"oneOf": None, "anyOf": None})
        return f"{own}, in one of {len(forms)} forms" if own != "none" else f"one of {len(forms)} forms"
    listed = []
    for form in forms:
        needed = [name for name in form.get("required", []) if name != tag]
        listed.append(
            f"{_find_constant(_get_fields(form)[tag])}" + (f" ({', '.join(map(str, needed))})" if needed else "")
        )
    return f"{tag} is one of: {', '.join(listed)}"


def _get_fields(form: dict[str, Any]) -> dict[str, Any]:
    fields = form.get("properties")
    return fields if isinstance(fields, dict) else {}


def _find_constant(part: Any) -> str | None:
    if isinstance(part, dict):
        options = [part["const"]] if "const" in part else part.get("enum")
        if isinstance(options, list) and len(options) == 1 and isinstance(options[0], str):
            return " ".join(options[0].split())
    return None


def _format_kind(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("enum"), list) or "const" in schema:
        options = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]]
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in options)
    kind, fields = schema.get("type"), schema.get("properties")
    if isinstance(kind, list):
        return " | ".join(map(str, kind))
    if kind == "array":
        return f"array of {_format_kind(schema['items'])}" if isinstance(schema.get("items"), dict) else "array"
    if kind == "object" and isinstance(fields, dict) and fields:
        tag = f"tag: {_format_kind(fields['tag'])}" if "tag" in fields else ""
        return f"{{{', '.join([*([tag] if tag else []), *(name for name in fields if name != 'tag')])}}}"
    if isinstance(kind, str):
        return kind
    for choice in ("anyOf", "oneOf"):
        if isinstance(schema.get(choice), list):
            return " | ".join(dict.fromkeys(map(_format_kind, schema[choice])))
    return "any"


def _show_capabilities(listed: list[dict[str, Any]]) -> None:
    needed = [entry for entry in listed if entry["capability"]]
    show("capabilities:" if needed else "capabilities: none needed")
    for entry in needed:
        unused = "" if entry["capability"] == "limits" else ": none of its imports uses this"
        uses = f": {_describe_imports(entry['imports'])}" if entry["imports"] else unused
        show(_wrap_text(f"{entry['capability']}{uses}", 2))
        _show_requests(entry["asks"], entry["granted"], entry["refused"])
    for entry in listed:
        if not entry["capability"]:
            show(_wrap_text(f"available to every tool: {_describe_imports(entry['imports'])}", 2))


def _show_requests(asks: list[str], granted: list[str], refused: str | None) -> None:
    shown = [("requested and granted", asks)] if asks == granted else [("requested", asks), ("granted", granted)]
    for title, sentences in shown:
        for sentence in sentences:
            show(_wrap_text(f"{title}: {sentence}", 4))
    if refused:
        show(_wrap_text(f"{'not granted yet' if asks else 'will be denied'}: {refused}", 4))


def _describe_imports(imports: dict[str, list[str]]) -> str:
    """Format an interface with its functions, or several interfaces of a package as one entry."""
    packages: dict[str, list[str]] = {}
    for interface in imports:
        path, _, version = interface.partition("@")
        package, _, _ = path.partition("/")
        packages.setdefault(f"{package}@{version}" if version else package, []).append(interface)
    shown = []
    for package, interfaces in packages.items():
        if len(interfaces) == 1:
            (interface,) = interfaces
            shown.append(f"{interface or 'functions'} ({', '.join(imports[interface]) or 'types'})")
        else:
            shown.append(f"{package} ({', '.join(name.partition('@')[0].partition('/')[2] for name in interfaces)})")
    return "; ".join(shown)


def _format_version(version: dict[str, Any]) -> str:
    state = ", active" * version["active"] + ", awaits a grant" * version["pending"]
    return f"{version['number']}: {version['digest'][:12]}, {version['installed_at']}{state}"


def _format_limit(name: str, limit: int, to_start: int) -> str:
    words = format_size if name.endswith("_bytes") else "{:,}".format
    if to_start > limit:
        return f"{name}: {words(limit)}, too low: it needs {words(to_start)} to start"
    return f"{name}: {words(limit)}, of which it needs {words(to_start)} to start and describe itself"


def _wrap_text(text: str, indent: int, lines: int = 3) -> str:
    blank = " " * indent
    width = min(max(get_terminal_size().columns, 60), _MAX_WIDTH)
    return textwrap.fill(
        text, width, initial_indent=blank, subsequent_indent=blank + "  ", max_lines=lines, placeholder=" ...",
        break_on_hyphens=False,
    )  # fmt: skip
