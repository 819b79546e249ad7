"""The host's side of its workers: started, kept, called, served, ended."""

from wasmrt.isolation.pool.home import WorkerHome

__all__ = ["WorkerHome"]
