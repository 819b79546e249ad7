from wasmrt.authoring.testing.wall import *
