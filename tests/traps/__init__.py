"""The trap suite: small programs that make a compile cache go wrong, each compared with no cache at all."""
