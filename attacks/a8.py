# ATTACK 8: poisoned note of distribution digests
from h import *
import sysconfig
t=fresh("a8")
site=sysconfig.get_paths()["purelib"]
s2=t.place/"site"; s2.mkdir()
shutil.copytree(f"{site}/numba", s2/"numba", ignore=shutil.ignore_patterns("tests","__pycache__"))
t.packages={"PYTHONPATH": str(s2)+":"+t.packages["PYTHONPATH"]}
os.system(f"chmod -R go-w,a+rX {s2}")
FORGE="""
from nbcache.daemon import worker
from nbcache.store.entry import Header
from nbcache.glue.keys import distributions as D
import json, numba
got=[]
d=D.Distributions()
d.remember=lambda key,variant,content,seconds: got.append((key,variant,content))
d.identity(numba)
print("notes", [(k[:8],len(c)) for k,v,c in got], file=sys.stderr)
for key,variant,content in got:
    c=json.loads(content)
    if {how!r}=="empty": c["contents"]={{}}
    else:
        for p in c["contents"]: c["contents"][p]="mallory"
    h=Header(key,"extensions","installed files","","",0.0,0.0,"","forged"+{how!r},{{"here":True}})
    done=worker.HandingStore({store!r}, worker.rule([]), writable=True).publish(h, {{"meta": json.dumps(c).encode()}})
    print("forgery:", done.ok, done.reason, file=sys.stderr)
"""
for how in ("steer","empty"):
    shutil.rmtree(t.store,ignore_errors=True)
    with t.daemon("--workers","1") as d:
        # bob's function exists already (built as bob's); mallory then hands in the note, if bob's job hasn't
        import threading
        if how=="steer":
            # worst case order: mallory first
            pass
        runtime(t,MALLORY,t.write("mallory","poison",FORGE.format(how=how,store=str(t.store))),**daemons.WAITING); d.settle()
        print([l for l in d.log.splitlines() if "forgery" in l or "notes" in l])
        for i in open_store(t.store).scan(): print(" ", i.header.function, i.header.guard, i.header.extra.get("asked"))
        main=t.write("bob","good")
        for i in range(2):
            s,o=runtime(t,BOB,main,**{**daemons.WAITING,"NBCACHE_LOG":"debug"}); print(how,"bob", round(s,2), o.status, o.stdout.strip(), [l[30:200] for l in o.stderr.splitlines() if "hit" in l or "rror" in l or "fault" in l or "good:f" in l][:6])
        for i in open_store(t.store).scan(): print("  ", i.key[:8], i.header.function, i.header.guard[:12], i.header.extra.get("asked"))
# the key that bob has without poison
shutil.rmtree(t.store,ignore_errors=True)
with t.daemon("--workers","1") as d:
    t.run(BOB,main); d.settle()
    for i in open_store(t.store).scan(): print("unpoisoned  ", i.key[:8], i.header.function, i.header.guard[:12], i.header.extra.get("asked"))
