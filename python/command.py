#!python
"""The command `kubist` of a wheel, which runs in the extension module.

It does not import the package, because that takes longer than most commands.
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
# The command installs its own handlers. An ignored signal stays ignored.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.exit(module.command(sys.executable, ["kubist", *sys.argv[1:]]))
