"""One call, top to bottom: `WasmToolRuntime`, prepared tools, receipts, workspace and configuration."""
