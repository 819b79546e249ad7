from wasmrt.interop.adapters.anthropic import *
