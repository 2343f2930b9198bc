"""What goes on while something is compiled: its names, what belongs to this process, what others' code reads."""
