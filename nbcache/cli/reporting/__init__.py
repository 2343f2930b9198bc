"""The page that ``nbcache report`` writes: gathered, then drawn. It holds no script and loads nothing."""
