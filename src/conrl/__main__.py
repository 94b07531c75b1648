"""`python -m conrl` is `conrl`: the current directory is not searched for modules.

`-m` puts it first on the path, where a file `click.py` beside somebody's data would be imported for the module. It is
taken off before anything else is imported. Python itself has looked there before, for `conrl` and for the few modules
of its own that it needs to find it: among hostile files use `conrl`, or `python -P -m conrl`.
"""

import os
import sys
from contextlib import suppress

if __name__ == "__main__":
    with suppress(OSError):  # a current directory that was removed is on no path
        here = os.getcwd()
        home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        if sys.path[0] in ("", here) and home != here:  # else it is where conrl itself lies
            del sys.path[0]
    from conrl.cli.main import main

    main(prog_name="conrl")
