"""Access plans of strided tiles, and the compiled loops that copy and add along them."""
