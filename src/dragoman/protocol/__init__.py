"""What the wire means: bytes and facts in, values out; no loop, no clock, no logging."""
