"""The first module that the fork server imports: while it loads the others, no garbage is collected.

The collector would visit again and again what is loaded to stay; ``settle``, the last, turns it on.
"""

from __future__ import annotations

import gc

gc.disable()
