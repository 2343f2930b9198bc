# ATTACK 2+3: failures of others' keys: self-test name (scope "") and same scope with other function
from h import *
t=fresh("a2")
with t.daemon("--workers","1") as d:
    main=t.write("bob","good")
    asked=t.recorded(main)
    r=asked[0]; print(r.key[:8], r.function, r.path, r.scope)
    # (a) mallory: self-test name, same key
    hers=dataclasses.replace(r, function="__main__:nbcache_selftest", path=(str(t.place/"mallory"),), source="0"*32)
    p=as_user(MALLORY, lambda: spool.submit(str(t.store), hers)); 
    daemons.wait_for(lambda: not os.path.exists(p)); 
    print("failed/:", os.listdir(t.store/"v1/failed"))
    b=time.time(); o=proc.run([main], t.store, {**daemons.WAITING, **t.packages}, python=t.python, user=BOB)
    print("bob (a)", o.status, [l for l in o.stderr.splitlines() if "good:f" in l], "stored:", any(True for _ in open_store(t.store).scan()))
    time.sleep(1)
    print("failed/ after 26 s:", os.listdir(t.store/"v1/failed"))
    # (b) same scope, other types/function
    d0=dict(r.types)
    hers=dataclasses.replace(r, function="good:nothing")
    print("same scope", hers.scope==r.scope)
    p=as_user(MALLORY, lambda: spool.submit(str(t.store), hers)); 
    daemons.wait_for(lambda: not os.path.exists(p)); 
    print("failed/:", os.listdir(t.store/"v1/failed"), [x.reason for x in spool.failures(str(t.store))])
    o=proc.run([main], t.store, {**daemons.WAITING, **t.packages}, python=t.python, user=BOB)
    print("bob (b)", o.status, [l for l in o.stderr.splitlines() if "good:f" in l], "stored:", [i.key[:8] for i in open_store(t.store).scan()])
