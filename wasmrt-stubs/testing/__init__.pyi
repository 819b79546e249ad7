from wasmrt.authoring.testing import *
