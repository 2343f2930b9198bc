# ATTACK 5: 101 places of mallory, each with a full table / good file
from h import *
import threading
t=fresh("a5")
with t.daemon("--workers","1") as d:
    main=t.write("bob","good"); t.run(BOB,main); d.settle(); path=t.entry(); of=t.parsed(path).key
    time.sleep(7); path.chmod(0o644)
    E={"NBCACHE_READONLY":"1","NBCACHE_TRUSTED_UIDS":",".join(map(str,sorted(TRUSTED)))}
    for i in range(2):
        path.chmod(0o644); print("bob before", round(runtime(t,BOB,main,**E)[0],2)); shutil.rmtree(t.store/f"v1/trials/{BOB}",ignore_errors=True)
    def fill():
        os.umask(0o022)
        good="".join(f"{i:032x} {i:064x}\n" for i in range(10700)).encode()
        for n in range(101):
            f=f"{t.store}/v1/trials/{MALLORY}"+(f"-{n:08x}" if n else "")
            os.makedirs(f,exist_ok=True)
            row=[]
            for i in range(1024):
                dig=f"{i:08x}{n:024x}"
                rec=first_calls.encode(first_calls.Call(dig,of,b"D",b"x"*8,1,time.time(),"f"))
                row.append(rec*2)
            open(f+"/calls-1","wb").write(b"".join(row))
            open(f+"/good-1","wb").write(good.replace(b"0"*20,b"%020x"%n))
    b=time.time(); as_user(MALLORY,fill); print("filling took", round(time.time()-b,1))
    b=time.time(); x=quarantine.read(str(t.store), open_store(t.store,trusted_uids=TRUSTED).trust); print("read()", round(time.time()-b,2), len(x))
    b=time.time(); x=quarantine.good(str(t.store), open_store(t.store,trusted_uids=TRUSTED).trust); print("good()", round(time.time()-b,2), len(x))
    for i in range(3):
        path.chmod(0o644); print("bob after", round(runtime(t,BOB,main,**E)[0],2))
    # daemon: new function asked by bob
    m2=t.write("bob","other")
    b=time.time(); t.run(BOB,m2); print("bob asks for another function", round(time.time()-b,2))
    st=open(f"/proc/{d.process.pid}/stat").read().split(); time.sleep(20); st2=open(f"/proc/{d.process.pid}/stat").read().split()
    print("daemon's cpu in 20 idle s:", (int(st2[13])+int(st2[14])-int(st[13])-int(st[14]))/100, "rss MB", int(st2[23])*4096>>20)
    hb=d.heartbeat(); print("heartbeat age", time.time()-hb["beat"])
