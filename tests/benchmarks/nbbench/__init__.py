"""The benchmark's parts: ways to run a child, what is measured, the table."""
