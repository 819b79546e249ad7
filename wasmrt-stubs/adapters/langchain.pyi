from wasmrt.interop.adapters.langchain import *
