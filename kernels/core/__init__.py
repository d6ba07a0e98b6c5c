"""What every kernel needs: the compiled-code cache, addresses, dtypes, checks of arguments, threads."""
