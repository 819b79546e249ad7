"""Adapters that offer a registry's tools to agent frameworks, and a framework's function tools to a registry.

Each module imports its framework. No other code of wasmrt imports these modules.
"""
