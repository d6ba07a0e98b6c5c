"""MLIR text: lexer, parser, printer.

Internal: names may change in any release.
"""
