# ATTACK 10: one usage record, how long
from h import *
from nbcache.store import usage
t=fresh("a10"); s=open_store(t.store)
import json
cases={
 "sources": b'{"version":1}'+b"".join(b'\n{"sources":{"%d":1}}'%i for i in range(40000)),
 "builds": b'{"version":1}'+b"\n"+b"\n".join([b'{"builds":[]}']*70000),
 "uncacheable": b'{"version":1}'+b"".join(b'\n{"uncacheable":{"r%d":{"functions":["a"]}}}'%(i%199) for i in range(22000)),
 "lists": b'{"version":1,"x":['+b",".join([b"[]"]*340000)+b"]}",
 "badline": b'{"version":1}\n{'+b"\n{}"*340000,
 "deep": b'{"version":1}\n'+b"["*1000000,
 "deeplines": b'{"version":1}\n{\n'+(b"["*900+b"\n")*1150,
}
for n,dta in cases.items():
    p=t.store/"v1/usage"/f"{n}.jsonl"; p.write_bytes(dta[:1<<20] if n!="x" else dta)
    b=time.time(); r=usage.load(str(p)); print(n, len(dta), round(time.time()-b,2), r is not None)
