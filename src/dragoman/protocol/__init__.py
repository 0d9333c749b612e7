"""The meaning of messages: bytes and facts in, values out; no loop, no clock, no logging."""
