"""What server authors use."""
