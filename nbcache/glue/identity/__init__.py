"""What Python objects are to a compiler: equal descriptions mean interchangeable."""
