"""The official JSON Schemas of the protocol, and what the tests need to read them."""
