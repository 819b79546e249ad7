from wasmrt.interop.adapters.openai_agents import *
