from wasmrt.interop.adapters.langgraph import *
