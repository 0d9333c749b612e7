"""A proxy on fastmcp 4, over stdio, in front of a server over HTTP: `fastmcp_proxy.py URL`."""

import sys

from fastmcp.server import create_proxy

create_proxy(sys.argv[1]).run(show_banner=False)
