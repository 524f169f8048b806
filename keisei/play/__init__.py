"""What a person or a program plays against: search, mates, and the USI engine."""
