"""What `keisei bench` measures."""
