"""Transports: they carry encoded messages and do not interpret them; `protocol/` does."""
