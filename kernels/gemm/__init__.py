"""What is behind ``emu.kernels.matmul``: micro-kernels, packing, and the loops around them."""
