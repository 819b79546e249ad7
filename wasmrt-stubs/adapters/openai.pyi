from wasmrt.interop.adapters.openai import *
