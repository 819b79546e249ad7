"""The code that can run in a worker process: the engine, the virtual WASI and the tool worlds."""
