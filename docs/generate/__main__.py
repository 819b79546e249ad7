"""Write the generated parts into the pages, and print the pages that changed."""

from __future__ import annotations

import argparse

from docs.generate import DOCS, pages


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description=__doc__)
    parser.parse_args()
    for page, text in pages():
        if page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
            print(f"wrote {page.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
