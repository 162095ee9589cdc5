"""Lets ParaView 5.11 of Debian 12 load Python plug-ins at all.

It imports `inspect.getargspec`, which Python 3.11 does not have any more. With this
directory on PYTHONPATH it finds one. Newer ParaView needs none of this.
"""

import inspect
from collections import namedtuple

if not hasattr(inspect, "getargspec"):
    _ArgSpec = namedtuple("_ArgSpec", "args varargs keywords defaults")
    inspect.getargspec = lambda function: _ArgSpec(*inspect.getfullargspec(function)[:4])
