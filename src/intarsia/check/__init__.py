"""What a file says of itself, and whether that is true."""
