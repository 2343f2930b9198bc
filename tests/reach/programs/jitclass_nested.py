"""jitclass: a field that is a jitclass, a field that is a typed container, an optional field."""

from numba import deferred_type, int64, njit, optional, typed, types
from numba.experimental import jitclass
from shown import show


@jitclass([("x", int64)])
class Inner:
    def __init__(self, x):
        self.x = x


@jitclass([("inner", Inner.class_type.instance_type), ("names", types.ListType(types.int64))])
class Outer:
    def __init__(self, x):
        self.inner = Inner(x)
        self.names = typed.List.empty_list(types.int64)

    def add(self, n):
        self.names.append(n)
        return self.inner.x + len(self.names)


node_type = deferred_type()


@jitclass([("data", int64), ("next", optional(node_type))])
class Node:
    def __init__(self, data, next):
        self.data = data
        self.next = next


node_type.define(Node.class_type.instance_type)


@njit
def chain(n):
    node = Node(0, None)
    for i in range(1, n):
        node = Node(i, node)
    return node


@njit
def walked(node):
    s = node.data
    while node.next is not None:
        node = node.next
        s += node.data
    return s


outer = Outer(5)
show("add", (outer.add(1), outer.add(2)))
show("inner", outer.inner.x)
show("names", list(outer.names))
show("chain", walked(chain(4)))
