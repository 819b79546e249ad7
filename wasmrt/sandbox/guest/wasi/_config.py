"""Implement `wasi:config@0.2`: the configuration values of the grant."""

from __future__ import annotations

from wasmrt.sandbox.component import Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import HostInterface
from wasmrt.sandbox.guest.requests import ConfigGet, ConfigList


def _get(ctx: GuestCall, key: str) -> Ok:
    return Ok(ctx.services.handle(ConfigGet(key)))


def _get_all(ctx: GuestCall) -> Ok:
    return Ok(ctx.services.handle(ConfigList()))


INTERFACES = (HostInterface("wasi:config/store@0.2.0", {"get": _get, "get-all": _get_all}),)
