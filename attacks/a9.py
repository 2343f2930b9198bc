from h import *
from nbtest import users
t=fresh("a9")
s=open_store(t.store, trusted_uids=TRUSTED); s.publish(header(extra={"asked":BOB}),SECTIONS); 
for x in (t.store).rglob("*"): pass
(f,)=s.find(key()); print(f.proven)
import encodings.ascii; "a".encode("ascii")
from nbcache.store import lifeline; lifeline.place()
def die():
    if os.fork()==0:
        from nbcache.client.trials import Trials
        from nbcache.store.directory import Store
        from nbcache.trust import Trust
        os.setgid(BOB); os.setuid(BOB)
        from nbcache.client.trials import Trials
        from nbcache.store.directory import Store
        from nbcache.trust import Trust
        st=Store(str(t.store),Trust(TRUSTED),writable=False)
        (e,)=st.find(key()); b=time.time(); tr=Trials(st); r=tr.begin(e,waits=True); os.write(1,f"begin -> {r} in {time.time()-b:.2f}s\n".encode()); os.kill(os.getpid(),9)
    os.wait()
die();die();die()
print("without eve, condemned for bob:", len(quarantine.condemned(str(t.store),s.trust,BOB)))
shutil.rmtree(t.store/f"v1/trials/{BOB}")
import fcntl
as_user(BOB,lambda: (os.makedirs(t.store/f"v1/trials/{BOB}"), open(t.store/f"v1/trials/{BOB}/calls-1","wb").close()))
code=f"""
import fcntl,os,time
fd=os.open({str(t.store/f'v1/trials/{BOB}/calls-1')!r},os.O_RDONLY); fcntl.lockf(fd,fcntl.LOCK_SH); print('locked',flush=True); time.sleep(100)
"""
eve=subprocess.Popen([t.python,"-c",code],user=EVE,group=EVE,extra_groups=[],stdout=subprocess.PIPE,text=True); print("eve:",eve.stdout.readline())
for i in range(6): die()
print("with eve, condemned for bob:", len(quarantine.condemned(str(t.store),s.trust,BOB)))
eve.kill(); eve.wait()
