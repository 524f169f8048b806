"""What all compiled code shares: the decorator that compiles it, and random numbers."""
