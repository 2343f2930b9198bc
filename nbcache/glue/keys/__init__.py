"""What is compiled and under which conditions, as one key."""
