#!python
"""The command `kubist` of a wheel: runs it in the package's own library.

The package itself is not imported, which would take longer than most commands.
"""

import signal
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

package = find_spec("kubist")
if package is None or package.origin is None:
    sys.exit("kubist: error: the package kubist is not installed in this Python")
library = str(Path(package.origin).with_name("_kubist.abi3.so"))
loader = ExtensionFileLoader("kubist._kubist", library)
spec = spec_from_file_location("kubist._kubist", library, loader=loader)
assert spec is not None
module = module_from_spec(spec)
loader.exec_module(module)
# The command has handlers of its own. A signal that is ignored stays so.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.exit(module.command(sys.executable, ["kubist", *sys.argv[1:]]))
