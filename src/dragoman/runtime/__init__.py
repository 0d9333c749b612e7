"""The event loop, threads, files and network options: code that transports, clients and servers share."""
