"""What goes on while something is compiled: its names, what belongs to this process, what others' code reads.

It stands below keys and overloads, because both ask what is being compiled, and it knows a unit only as what
`compilations.OpenUnit` says.
"""
