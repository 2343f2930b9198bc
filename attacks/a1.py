# ATTACK 1: stranger eve read-locks v1/askers/* -> root's housekeeping, gc, clear hang
from h import *
t=fresh("a1")
with t.daemon("--workers","1", NBCACHE_MAX_SIZE="2MB") as d:
    main=t.write("bob","good"); t.run(BOB,main); d.settle(); print("bob built", t.entry(), oct(os.stat(t.entry()).st_mode))
    # root evicts once: askers file appears
    print("gc1", proc.run(["-m","nbcache","gc","--max-size","1"], t.store).status, os.listdir(t.store/"v1/askers"))
    for f in (t.store/"v1/askers").iterdir(): print(oct(f.stat().st_mode))
    t.run(BOB,main); d.settle()
    code=f"""
import fcntl,os,glob,time
fds=[]
for p in glob.glob({str(t.store/'v1/askers')!r}+'/*'):
    fd=os.open(p,os.O_RDONLY); fcntl.lockf(fd,fcntl.LOCK_SH); fds.append(fd)
print('locked',len(fds),flush=True); time.sleep(600)
"""
    eve=subprocess.Popen([t.python,"-c",code],user=EVE,group=EVE,extra_groups=[],stdout=subprocess.PIPE,text=True)
    print("eve:",eve.stdout.readline())
    b=time.time()
    gc=subprocess.Popen([sys.executable,"-m","nbcache","gc","--max-size","1"],env=proc.environment(t.store,{}),cwd="/")
    try: gc.wait(25); print("gc2 ended", time.time()-b)
    except subprocess.TimeoutExpired: print("gc HANGS >25 s, wchan", open(f"/proc/{gc.pid}/wchan").read())
    # daemon's housekeeping
    t.run(MALLORY, t.write("mallory","big",FILLING.format(store=str(t.store))))
    time.sleep(20)
    size=lambda: sum(i.size for i in open_store(t.store).scan())
    print("store size (limit 2MB):", size()>>20,"MiB; evicted lines:", sum(l["event"]=="evicted" for l in t.audited()))
    for tid in os.listdir(f"/proc/{d.process.pid}/task"):
        w=open(f"/proc/{d.process.pid}/task/{tid}/wchan").read()
        if "lock" in w: print("daemon thread hangs in", w)
    eve.kill(); eve.wait(); 
    try: print("gc after eve's end", gc.wait(20))
    except Exception as e: print(e); gc.kill()
