from wasmrt.interop.adapters.pydantic_ai import *
