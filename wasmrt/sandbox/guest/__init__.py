"""Everything that may live in a worker process: the engine, the virtual WASI and the tool worlds."""
