"""MLIR text: lexer, parser, printer."""
