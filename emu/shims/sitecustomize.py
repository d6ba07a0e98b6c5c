"""Start-up file of Python processes below `emu run`: gives them the imports of a PE."""

import _emu_imports

_emu_imports.install()
_emu_imports.run_next_sitecustomize()
