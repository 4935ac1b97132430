"""Highlights MLIR, for which Pygments has no lexer."""

from __future__ import annotations

from typing import Any

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text


class MLIRLexer(RegexLexer):
    """Lexer of MLIR's textual form, as far as colours need."""

    name = "MLIR"
    aliases = ["mlir"]  # noqa: RUF012 (a declaration of Pygments)
    filenames = ["*.mlir"]  # noqa: RUF012
    tokens = {  # noqa: RUF012
        "root": [
            (r"\s+", Text),
            (r"//.*?$", Comment.Single),
            (r'"(?:\\.|[^"\\])*"', String),
            (r"%[\w$.#-]+", Name.Variable),
            (r'@(?:[\w$.-]+|"[^"]*")', Name.Function),
            (r"\^[\w$.-]+", Name.Label),
            (r"[#!][\w$.-]+", Name.Class),
            (r"(?:\d+|\?)x(?=[\d?a-z])", Number),
            (r"(?:[su]?i\d+|f\d+\w*|bf16|index|tensor|vector|memref|none|tuple)\b", Keyword.Type),
            (r"-?\b(?:0x[0-9a-fA-F]+|\d+(?:\.\d*(?:[eE][-+]?\d+)?)?)\b", Number),
            (
                r"\b(?:module|attributes|private|loc|dense|array|true|false|unit|affine_map|to|step|iter_args)\b",
                Keyword,
            ),
            (r"[a-z_]\w*(?:\.[\w$]+)+", Name.Builtin),
            (r"[A-Za-z_][\w$]*", Name),
            (r"->|[=:+*/<>-]", Operator),
            (r"[()\[\]{},.?|&;`$~^!%@#]", Punctuation),
            (r".", Text),
        ]
    }


def setup(app: Any) -> dict[str, bool]:
    """Registers the extension."""
    app.add_lexer("mlir", MLIRLexer)
    return {"parallel_read_safe": True}
