"""How bytes travel; what they mean is decided elsewhere."""
