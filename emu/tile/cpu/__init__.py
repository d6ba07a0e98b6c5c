"""The CPU compiler: tile IR to native code, through LLVM."""
