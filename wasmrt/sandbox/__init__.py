"""The sandbox: component format, WIT and schemas, engine, WASI, tool worlds, worker processes, confinement."""
