"""Makes ParaView 5.11 of Debian 12 load Python plug-ins.

This ParaView imports `inspect.getargspec`, which Python 3.11 has removed. With this directory on
PYTHONPATH it finds a replacement.
"""

import inspect
from collections import namedtuple

if not hasattr(inspect, "getargspec"):
    _ArgSpec = namedtuple("_ArgSpec", "args varargs keywords defaults")
    inspect.getargspec = lambda function: _ArgSpec(*inspect.getfullargspec(function)[:4])
