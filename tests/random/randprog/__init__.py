"""Random Numba programs, random edits to them, and the comparison with a run without any cache.

``model``   a program as data: constants, functions, how they refer to one another
``grow``    makes a random program
``render``  writes it as Python files
``choosing`` writes what chooses while compiling, and aliases
``edits``   changes it, one random step at a time
``zygote``  processes with Numba imported that fork one child per run
``drive``   the loop: edit, run both ways, compare
"""
