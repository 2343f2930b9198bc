# ATTACK 11: more sets of settings than there are pools: bob's interpreter is retired again and again
from h import *
t=fresh("a11")
with t.daemon("--workers","2") as d:
    main=t.write("bob","warmup"); t.run(BOB,main); d.settle()
    def ask(n):
        m=t.write("bob",f"f{n}"); return runtime(t,BOB,m,**daemons.WAITING)[0]
    print("bob asks, before:", [round(ask(i),2) for i in range(3)])
    r=t.recorded(t.write("mallory","x"))[0]
    import threading
    stop=[]
    def storm():
        n=0
        while not stop:
            q=dataclasses.replace(r,key=os.urandom(32).hex(),settings={"NUMBA_OPT":"3","NUMBA_X":str(n%30)}); n+=1
            as_user(MALLORY,lambda: spool.submit(str(t.store),q)); time.sleep(.3)
    th=threading.Thread(target=storm); th.start(); time.sleep(10)
    print("bob asks, during:", [round(ask(10+i),2) for i in range(4)])
    stop.append(1); th.join()
    kids=subprocess.run(["ps","--ppid",str(d.process.pid),"-o","pid,rss,etimes"],capture_output=True,text=True).stdout; print(kids)
