"""The dialects that MLIR itself needs: builtin, func, arith."""
