"""``triton.experimental.gluon``: refused, as Gluon describes the warps and the memories of one GPU."""

# Without `name=`: Python would hide the text in `from triton.experimental import gluon`.
raise ModuleNotFoundError(
    "triton.experimental.gluon is not in emu: Gluon describes the warps, layouts and memories of one GPU, which a "
    "CPU does not have; write the kernel with triton.language"
)
