from wasmrt.authoring.testing.attacks import *
