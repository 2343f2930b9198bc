# ATTACK 4: mallory's spinning job under bob's key makes bob wait (default settings)
from h import *
t=fresh("a4")
with t.daemon("--workers","2") as d:
    main=t.write("bob","good")
    asked=t.recorded(main); r=asked[0]
    # baseline: no daemon store
    env={"NBCACHE_READONLY":"1","NBCACHE_LOG":"info"}
    o=proc.run([main], t.place/"none", {**t.packages}, python=t.python, user=BOB)
    b=time.time(); o=proc.run([main], t.place/"none", {**t.packages}, python=t.python, user=BOB); print("bob without a store", round(time.time()-b,2))
    t.write("mallory","good","while True: pass")
    hers=[dataclasses.replace(r, path=(str(t.place/"mallory"),)+r.path)]
    p=as_user(MALLORY, lambda: spool.submit(str(t.store), hers[0])); time.sleep(4)
    for i in range(2):
        b=time.time(); o=proc.run([main], t.store, {**t.packages, **env}, python=t.python, user=BOB); print("bob with default settings", round(time.time()-b,2)); print(o.stderr[-400:])
    print(d.log[-500:])
