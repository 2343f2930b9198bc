"""A fleet of hosts on a clock of its own: nbcache's code for remote caches, against servers that don't exist."""
