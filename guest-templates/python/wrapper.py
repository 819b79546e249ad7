"""Call the functions of `app`, and report an uncaught exception or a result of a wrong type, with its line.

`wasmrt build` fills in the exported functions with their types, and compiles this module. Because only functions with
an error type can return a failure, failures are written to standard error.
"""

import dis
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import app
from app import *  # noqa: F403
from componentize_py_types import Err
from wrong_types import WrongTypeError, check, check_error

_MAX_CHARACTERS = 800
_MAX_FRAMES = 20
_ADVICE_FILES = "a tool can open only workspace files that its capability file lists under workspace"
_ADVICE_SOCKETS = "a tool has no sockets; use the import wasmrt:tool/http"
_ADVICE_MODULES = "import modules at the top of the file, because they are loaded by wasmrt build"
_running = False


def _wrap(name: str, function: Callable[..., Any], result: Any) -> Callable[..., Any]:
    def call(*params: Any) -> Any:
        global _running
        if _running:
            return function(*params)  # a call within the tool, which may handle exceptions itself
        _running = True
        if "random" in sys.modules:
            sys.modules["random"].seed()  # its state dates from the build, and would repeat in every call
        try:
            value = function(*params)
            check(result, value)
            return value
        except Err as error:
            if check_error(result, error.value):
                raise  # the function returns its failure
            _report(*_describe(error, name, function))
        except BaseException as error:
            _report(*_describe(error, name, function))
        finally:
            _running = False
            sys.stdout.flush()

    return call


def _describe(error: BaseException, name: str, function: Callable[..., Any]) -> tuple[str, str, str]:
    """Return the kind, code and message of the failure for an exception."""
    trace = error.__traceback__ and error.__traceback__.tb_next  # without the frame of this module
    error.__traceback__ = None  # releases the tool's values, which may fill the memory
    frames = [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in traceback.walk_tb(trace)]
    if isinstance(error, MemoryError):
        return "executor", "out-of-memory", f"MemoryError{_place(frames)}"
    if isinstance(error, WrongTypeError):
        return "operation-failed", "crashed", f"{name} returned a wrong type: {error}{_return_place(function)}"
    _print_traceback(frames, _text(error))
    failure = error.value if isinstance(error, Err) else None
    if hasattr(failure, "kind") and hasattr(failure, "message"):  # of a host function
        return failure.kind.name.lower().replace("_", "-"), failure.code, f"{failure.message}{_place(frames)}"
    advice = _advice(error, frames)
    return "operation-failed", "crashed", f"{_text(error)}{_place(frames)}{advice and '; '}{advice}"


def _print_traceback(frames: list[tuple[str, int, str]], text: str) -> None:
    """Print a traceback without source lines: reading them would be denied, and recorded as an access of the tool."""
    print("Traceback (most recent call last):", file=sys.stderr)
    for file, line, function in frames[-_MAX_FRAMES:]:
        print(f'  File "{_relative(file)}", line {line}, in {function}', file=sys.stderr)
    print(text, file=sys.stderr)


def _text(error: BaseException) -> str:
    try:
        text = str(getattr(error, "value", error) if isinstance(error, Err) else error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text[:_MAX_CHARACTERS]}" if text else type(error).__name__


def _place(frames: list[tuple[str, int, str]]) -> str:
    """Return the place in the tool's source where an exception was raised."""
    own = [frame for frame in frames if not frame[0].startswith(("/python/", "<"))] or frames
    if not own:
        return ""
    file, line, function = own[-1]
    return f" ({_relative(file)}, line {line}, in {function})"


def _return_place(function: Callable[..., Any]) -> str:
    """Return the lines of a function's return statements."""
    code = inspect.unwrap(function).__code__
    returns = [
        step.line_number for step in dis.get_instructions(code) if step.opname in ("RETURN_VALUE", "RETURN_CONST")
    ]
    lines = sorted({line for line in returns if line is not None})
    shown = f"{'line' if len(lines) == 1 else 'one of the lines'} {', '.join(map(str, lines[:9]))}"
    return f" ({_relative(code.co_filename)}, {shown}, in {code.co_name})"


def _relative(file: str) -> str:
    return file.removeprefix("/0/")


def _advice(error: BaseException, frames: list[tuple[str, int, str]]) -> str:
    if any(file.endswith("/socket.py") for file, _, _ in frames):
        return _ADVICE_SOCKETS
    if isinstance(error, OSError) and error.filename is not None:
        return _ADVICE_FILES
    return _ADVICE_MODULES if isinstance(error, ImportError) else ""


def _report(kind: str, code: str | None, message: str) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    failure = {"kind": kind, "code": code, "message": message[: 2 * _MAX_CHARACTERS]}
    text = json.dumps({"wasmrt-failure": failure}, ensure_ascii=False)
    os.write(2, text.encode("utf-8", "backslashreplace") + b"\n")
    os._exit(1)


def _wrap_class(interface: str | None, functions: dict[str, Any]) -> None:
    name = "WitWorld" if interface is None else "".join(word[:1].upper() + word[1:] for word in interface.split("-"))
    base = getattr(app, name, None)
    if not isinstance(base, type):
        return  # componentize-py reports that it is missing
    methods = {}
    for function, result in functions.items():
        method = getattr(base, function.replace("-", "_"), None)
        if inspect.isfunction(method) and not inspect.iscoroutinefunction(method):
            shown = function if interface is None else f"{interface}.{function}"
            methods[method.__name__] = _wrap(shown, method, result)
    globals()[name] = type(name, (base,), methods)


for _interface, _functions in json.loads("{{exports}}"):
    _wrap_class(_interface, _functions)
