"""A guest that asks a server through wasi:http, as rust/http does, in Python."""

import json
from typing import Any

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.tool import Request, Response
from wit_world.imports import outgoing_handler, streams, types

_METHODS = {"GET": types.Method_Get(), "POST": types.Method_Post()}


class Tool(exports.Tool):
    def execute(self, req: Request) -> Response:
        try:
            return Response(output=json.dumps(_ask(**json.loads(req.params))), error=None)
        except Err as error:
            return Response(output=None, error=repr(error.value))

    def schema(self) -> str:
        return '{"type": "object"}'

    def description(self) -> str:
        return "Asks a server."


def _ask(
    *,
    authority: str,
    path: str,
    method: str = "GET",
    headers: list[tuple[str, str]] | None = None,
    body: str = "",
    body_bytes: int = 0,
) -> dict[str, Any]:
    fields = types.Fields()
    for name, value in headers or []:
        fields.append(name, value.encode())
    request = types.OutgoingRequest(fields)
    request.set_method(_METHODS.get(method) or types.Method_Other(method))
    request.set_scheme(types.Scheme_Https())
    request.set_authority(authority)
    request.set_path_with_query(path)
    outgoing = request.body()
    future = outgoing_handler.handle(request, None)
    _send(outgoing, body.encode() + b"x" * body_bytes)
    return _receive(_wait(future))


def _send(body: types.OutgoingBody, content: bytes) -> None:
    with body.write() as stream:
        for at in range(0, len(content), 4096):
            stream.blocking_write_and_flush(content[at : at + 4096])
    types.OutgoingBody.finish(body, None)


def _wait(future: types.FutureIncomingResponse) -> types.IncomingResponse:
    while True:
        answer = future.get()
        if answer is None:
            with future.subscribe() as pollable:
                pollable.block()
            continue
        if isinstance(answer, Err):
            raise answer
        if isinstance(answer.value, Err):
            raise answer.value
        return answer.value.value


def _receive(response: types.IncomingResponse) -> dict[str, Any]:
    with response.headers() as fields:
        headers = [(name, value.decode()) for name, value in fields.entries()]
    content, largest = bytearray(), 0
    with response.consume() as body, body.stream() as stream:
        try:
            while True:
                piece = stream.blocking_read(1 << 20)
                largest = max(largest, len(piece))
                content += piece
        except Err as error:
            if not isinstance(error.value, streams.StreamError_Closed):
                raise
    return {
        "status": response.status(),
        "headers": headers,
        "body": content[:4096].decode(),
        "body_bytes": len(content),
        "largest": largest,
    }
