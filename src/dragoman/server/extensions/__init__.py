"""What extensions add to a server."""
