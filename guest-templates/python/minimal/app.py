"""{{name}}: counts the words of a text. The functions are declared in wit/tool.wit."""

from wit_world import exports


class Words(exports.Words):
    def count(self, text: str) -> int:
        return len(text.split())
