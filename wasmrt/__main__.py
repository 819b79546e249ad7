"""`python -m wasmrt`."""

from wasmrt.cli import main

if __name__ == "__main__":
    main()
