from wasmrt.interop.adapters.anthropic_runner import *
