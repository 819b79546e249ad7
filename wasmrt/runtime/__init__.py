"""Preparing and calling tools: `WasmToolRuntime`, prepared tools, receipts, workspace and configuration."""
