"""``triton.experimental.gluon.language.nvidia``: refused, by which libraries learn that its kernels do not run."""

# Without `name=`: Python would hide the text in `from … import nvidia`.
raise ModuleNotFoundError(
    "triton.experimental.gluon.language.nvidia is not in emu: Gluon describes the warps, layouts and memories of one GPU, "
    "which a CPU does not have; write the kernel with triton.language"
)
