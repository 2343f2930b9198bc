# ATTACK 7: a job floods log and audit log
from h import *
t=fresh("a7")
FLOOD="""
from nbcache.daemon import worker, channel
import time
link=worker._current.link
b=time.time(); n=0
data=b"x"
while time.time()-b<15:
    fd=channel.sealed(data)
    try: link.ask({"entry": True}, fd)
    finally: import os; os.close(fd)
    n+=1
print("flooded", n, file=sys.stderr)
"""
with t.daemon("--workers","1") as d:
    main=t.write("bob","good"); t.run(BOB,main); d.settle()
    s0=os.path.getsize(d.log_path); a=next((t.place/"store-one.state").glob("*/audit.jsonl"))
    p=as_user(MALLORY,lambda:None)
    runtime(t,MALLORY,t.write("mallory","flood",FLOOD),**daemons.WAITING); d.settle()
    print("log grew by", os.path.getsize(d.log_path)-s0, "lines", d.log.count("refused an entry"), [l for l in d.log.splitlines() if "flooded" in l])
    print("audit", [(f.name,f.stat().st_size) for f in a.parent.glob("audit*")], "bob's published line is there:", any('"asked": 54321' in f.read_text() for f in a.parent.glob("audit*")))
