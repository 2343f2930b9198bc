"""The command ``nbcache``: one module for each group of commands, found by `main`.

A command gets its parsed arguments, prints to standard output, and returns an exit status: 0 all is well, 1 something
is wrong. Bad usage is 2, from argparse and from `text.UsageError`. What is wrong is one clear line on standard error.
"""
